"""vLLM on CPU over the tiny model: up in about a minute, 2.8 GB; latencies on two cores prove nothing.

What a client must bear of it: headers at once; a role chunk with ``content: ""``; finish_reason on the last
content chunk; several tokens in one chunk when its API process lags.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from target_process import TargetProcess, free_port, running
from tiny_model import TinyModel

from chaosflow.core.host import ProcessRef
from chaosflow.linux import procs

_INSTALL = Path(__file__).with_name("install_vllm.sh")
_OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "0",
}


def install_vllm(venv: Path) -> None:
    """vLLM in a virtual environment of its own; returns at once where it is there already."""
    venv.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([str(_INSTALL), str(venv)], check=True, timeout=1200)


@contextlib.contextmanager
def vllm_server(venv: Path, model: TinyModel, log_folder: Path) -> Iterator[TargetProcess]:
    """A healthy vLLM server, its busy-spinning children reniced; gone, with its cgroup, at the end."""
    port = free_port()
    command = [
        str(venv / "bin" / "vllm"), "serve", str(model.folder), "--served-model-name", "tiny",
        "--host", "127.0.0.1", "--port", str(port), "--dtype", "float32", "--enforce-eager",
        "--max-model-len", "2048", "--max-num-seqs", "32",
    ]  # fmt: skip
    log = log_folder / "vllm.log"
    with running("vllm", command, port, log, env=_OFFLINE, ready_timeout_s=300) as target:
        _let_the_api_process_run(target.pid)
        yield target


def _let_the_api_process_run(pid: int) -> None:
    """Lower the priority of every descendant: engine core and worker spin while they wait for work.

    Without it the API process starves on two cores: all chunks of a stream come in bursts.
    """
    root = ProcessRef.of(pid)
    for ref in procs.tree([root] if root else []):
        if ref.pid == pid:
            continue
        for task in os.listdir(f"/proc/{ref.pid}/task"):  # nice is a thread's, not a process's (nice(2))
            with contextlib.suppress(ProcessLookupError):
                os.setpriority(os.PRIO_PROCESS, int(task), 10)
