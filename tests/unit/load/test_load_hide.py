"""What a server sends back of what it was sent, as it comes into records and reports."""

from __future__ import annotations

import json

import pytest

from chaosflow.load.hide import Hider

KEY = 'canary-3f81"d0-of-many-signs'


@pytest.mark.parametrize("spelt", [KEY, json.dumps(KEY)[1:-1]])
def test_a_secret_that_a_server_sends_back_is_hidden(spelt: str) -> None:
    """An error page that echoes the request would put the key into a file (chaostoolkit 178)."""
    assert Hider([KEY]).hide(f"500: you sent {spelt}, why?") == "500: you sent ***, why?"


@pytest.mark.parametrize("cut", range(6, len(KEY) + 1))
def test_a_secret_that_is_cut_where_the_text_ends_is_hidden_too(cut: int) -> None:
    assert Hider([KEY]).hide(f"401: denied for {KEY[:cut]}") == "401: denied for ***"


def test_a_short_secret_tears_no_holes() -> None:
    assert Hider(["1", "", "http"]).hide("status 401: http") == "status 401: http"
