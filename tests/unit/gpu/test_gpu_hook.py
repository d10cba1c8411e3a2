"""Any Python tool on the virtual GPU, and never beside torch or vllm."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

LOOK = "import pynvml as n; n.nvmlInit(); print(n.nvmlDeviceGetName(n.nvmlDeviceGetHandleByIndex(0)))"


def run(state: Path, *command: str, path: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "chaosflow.gpu", str(state), "--gpu", "l4", "--", *command],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )


@pytest.mark.slow
def test_a_python_tool_sees_the_virtual_gpu(tmp_path: Path) -> None:
    done = run(tmp_path / "gpu", sys.executable, "-c", LOOK)
    assert (done.stdout, done.stderr) == ("Virtual NVIDIA L4\n", "")


@pytest.mark.slow
def test_the_tools_own_sitecustomize_still_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('mine')\n")
    done = run(tmp_path / "gpu", sys.executable, "-c", LOOK, path=str(tmp_path))
    assert done.stdout.splitlines()[-2:] == ["mine", "Virtual NVIDIA L4"]


@pytest.mark.slow
@pytest.mark.parametrize("order", ["import pynvml, torch", "import torch, pynvml"])
def test_it_is_off_in_a_process_that_imports_torch(tmp_path: Path, order: str) -> None:
    (tmp_path / "torch.py").write_text("")
    code = f"{order}; print(type(pynvml.nvmlLib).__name__)"
    done = run(tmp_path / "gpu", sys.executable, "-c", code, path=str(tmp_path))
    assert done.stdout == "NoneType\n"
    assert done.stderr == "chaosflow vgpu: off, this process imports torch\n"


def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    done = run(tmp_path / "gpu", "no-such-command-here")
    assert done.returncode == 2
    assert "cannot be run" in done.stderr
