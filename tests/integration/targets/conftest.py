"""Real servers for the tests of this folder: one model and one llama.cpp server, shared by all of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "targets"))

from llamacpp import llamacpp_server
from target_process import TargetProcess
from tiny_model import TinyModel, make_tiny_model


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> TinyModel:
    """The random model, made once a session."""
    return make_tiny_model(tmp_path_factory.mktemp("tiny-model"))


@pytest.fixture(scope="module")
def llamacpp(tiny_model: TinyModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TargetProcess]:
    """A llama.cpp server that must be left as it was found."""
    with llamacpp_server(tiny_model, tmp_path_factory.mktemp("llamacpp")) as target:
        yield target
