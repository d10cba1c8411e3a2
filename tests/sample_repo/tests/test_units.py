"""Ordinary tests of the product: its folders are its own."""

import engine
import reports


def test_prompt():
    assert engine.prompt_for("hello")["stream"] is True


def test_headline():
    assert reports.headline(3) == "3 answers"
