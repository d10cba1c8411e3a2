"""AIPerf against the truth server (part ``rivals`` of bench_fidelity.py).

It needs some 150 packages, so it gets an environment of its own (build/rivals, made once) and no part in the project's.
Its "inter-token latency" is an average per request, whose P99 cannot show a stall within a stream: it is left out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

from fidelity_rig import HERE, take_precedence

VENV = HERE.parent / "build" / "rivals"
PACKAGE = "aiperf"


class NotInstalled(Exception):
    """Why the rival cannot run here, in pip's own words."""


@dataclass(slots=True)
class Reported:
    """What a tool says of its run; ms."""

    ttft_mean: float
    ttft_p99: float
    cpu_s: float


def install() -> Path:
    """AIPerf's program, installed from the package index where it is not yet. Raises NotInstalled."""
    program = VENV / "bin" / PACKAGE
    if program.exists():
        return program
    try:
        venv.create(VENV, with_pip=True, clear=True)
        pip = [VENV / "bin" / "pip", "--disable-pip-version-check", "--quiet", "install", PACKAGE]
        done = subprocess.run(pip, capture_output=True, text=True, timeout=900, check=False)
    except (OSError, subprocess.SubprocessError) as e:
        raise NotInstalled(str(e)) from e
    if done.returncode or not program.exists():
        raise NotInstalled(" ".join(done.stderr.strip().splitlines()[-2:]) or "pip said nothing")
    return program


def tokenizer(folder: Path) -> Path:
    """A small tokenizer, for AIPerf wants one."""
    sys.path.insert(0, str(HERE.parent / "tests" / "targets"))
    from tiny_model import make_tiny_model

    return make_tiny_model(folder / "model").folder


def aiperf(program: Path, model: Path, port: int, streams: int, requests: int, folder: Path) -> Reported:
    """One closed-loop run. Raises NotInstalled where it fails, with its last words."""
    command = [
        program, "profile", "--model", "tiny", "--tokenizer", model, "--url", f"http://127.0.0.1:{port}",
        "--endpoint-type", "chat", "--streaming", "--concurrency", str(streams), "--request-count", str(requests),
        "--synthetic-input-tokens-mean", "8", "--output-tokens-mean", "64", "--ui", "none", "--artifact-dir", folder,
    ]  # fmt: skip
    log = folder.with_suffix(".log")
    with log.open("wb") as words:
        process = subprocess.Popen(command, stdout=words, stderr=words)
        take_precedence(process.pid)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    reports = list(folder.rglob("profile_export_aiperf.json"))
    if not reports:
        raise NotInstalled(f"exit code {process.returncode}: {log.read_text(errors='replace')[-300:]}")
    ttft = json.loads(reports[0].read_text())["time_to_first_token"]
    assert ttft["count"] == requests, ttft
    return Reported(ttft["avg"], ttft["p99"], used.ru_utime + used.ru_stime)
