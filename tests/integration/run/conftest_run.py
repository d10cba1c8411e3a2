"""Real runs of the real command, and a close look at what they leave behind."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from chaosflow.core.host import RUN_VARIABLE, state

CHAOSFLOW = [sys.executable, "-m", "chaosflow"]


def _system_python() -> str:
    """A python3 of our version that any user may run: ours may lie in somebody's home."""
    path = "/usr/bin/python3"
    code = f"import sys; print(sys.version_info[:2] == {sys.version_info[:2]!r})"
    with contextlib.suppress(OSError):
        done = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
        return path if done.stdout.strip() == "True" else ""
    return ""


SYSTEM_PYTHON = _system_python()


def scenario(**changes: Any) -> dict[str, Any]:
    """A short scenario on the included engine; ``changes`` replace top-level keys."""
    base: dict[str, Any] = {
        "version": 1,
        "name": "t",
        "target": {"engine": {"backend": "sim"}},
        "load": {"arrival": {"kind": "constant", "rate_per_s": 12}, "prompt_tokens": 16, "output_tokens": 8},
        "phases": {"warmup": "300ms", "baseline": "1700ms", "recovery": "700ms"},
        "faults": [],
        "probes": [],
        "sla": {"objectives": ["error_rate <= 90%"], "window": "5s"},
    }
    return base | changes


@dataclass
class Place:
    """A folder for one test's runs and journals; the path is short, since sockets lie below it."""

    top: Path
    runs: list[Running] = field(default_factory=list)

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "CHAOSFLOW_STATE_DIR": str(self.top / "s")}

    def write(self, data: dict[str, Any]) -> Path:
        path = self.top / f"{data.get('name', 'x')}.yaml"
        path.write_text(yaml.safe_dump(data))
        return path

    def start(self, data: dict[str, Any], *options: str) -> Running:
        """``chaosflow run`` in the background, in a session of its own."""
        command = [
            *CHAOSFLOW,
            "run",
            str(self.write(data)),
            "--plain",
            "--runs-dir",
            str(self.top / "runs"),
            *options,
        ]
        log = (self.top / f"out-{len(self.runs)}.txt").open("w+b")
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=self.env,
            start_new_session=True,
        )
        running = Running(process, Path(log.name), self)
        log.close()
        self.runs.append(running)
        return running

    def run(self, data: dict[str, Any], *options: str, timeout_s: float = 90) -> Running:
        running = self.start(data, *options)
        running.wait(timeout_s)
        return running

    def chaosflow(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*CHAOSFLOW, *arguments],
            env=self.env,
            cwd=self.top,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def leftovers(self) -> list[str]:
        """Everything of this place's runs that is still in the world, in words."""
        found = [f"journal {p}" for p in (self.top / "s").glob("*/undo.jsonl")]
        marker = str(self.top).encode()
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            with contextlib.suppress(OSError):
                environment = (entry / "environ").read_bytes()
                if (
                    f"{RUN_VARIABLE}=".encode() in environment
                    and marker in environment
                    and state(int(entry.name)) not in "ZX"
                ):
                    found.append(f"process {entry.name} {(entry / 'cmdline').read_bytes()[:120]!r}")
                if (
                    b"chaosflow.watchdog" in (command := (entry / "cmdline").read_bytes())
                    and marker in command
                ):
                    found.append(f"watchdog {entry.name}")
        ids = {p.name for p in (self.top / "runs").glob("*")}
        for mount in (Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").glob("*")):
            found += [f"cgroup {mount}/{i}" for i in ids if (mount / "chaosflow" / i).exists()]
        return found

    def wait_until_clean(self, within_s: float) -> tuple[float, list[str]]:
        """(seconds until nothing was left, what was still left at the end)."""
        began = time.monotonic()
        while left := self.leftovers():
            if time.monotonic() - began > within_s:
                return within_s, left
            time.sleep(0.02)
        return time.monotonic() - began, []


@dataclass
class Running:
    process: subprocess.Popen[bytes]
    log: Path
    place: Place

    @property
    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def wait(self, timeout_s: float = 90) -> int:
        return self.process.wait(timeout_s)

    @property
    def folder(self) -> Path:
        """The folder of this run (the newest, where a place had several)."""
        return max(
            (p for p in (self.place.top / "runs").iterdir() if p.is_dir()), key=lambda p: p.stat().st_mtime
        )

    @property
    def result(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads((self.folder / "result.json").read_text())
        return data

    def until(self, text: str, timeout_s: float = 40) -> None:
        """Wait until the run has printed ``text``."""
        give_up = time.monotonic() + timeout_s
        while text not in self.text:
            assert self.process.poll() is None, f"ended with {self.process.returncode}:\n{self.text}"
            assert time.monotonic() < give_up, f"no {text!r} in:\n{self.text}"
            time.sleep(0.02)

    def fault(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = next(f for f in self.result["faults"] if f["name"] == name)
        return found


@pytest.fixture
def place() -> Iterator[Place]:
    top = Path(tempfile.mkdtemp(prefix="cf-", dir="/tmp"))
    made = Place(top)
    try:
        yield made
        _, left = made.wait_until_clean(3.0)
        assert not left, f"left behind: {left}"
    finally:
        for running in made.runs:
            if running.process.poll() is None:
                running.process.send_signal(signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    running.process.wait(15)
            if running.process.poll() is None:
                running.process.kill()
                running.process.wait()
        shutil.rmtree(top, ignore_errors=True)


@dataclass
class Server:
    """The engine, started by somebody else than ChaosFlow: a server of the user's."""

    process: subprocess.Popen[str]
    url: str
    cgroup: Path | None

    def quota(self) -> str:
        assert self.cgroup
        v1 = self.cgroup / "cpu.cfs_quota_us"
        return (v1 if v1.exists() else self.cgroup / "cpu.max").read_text().strip()


@pytest.fixture
def server() -> Iterator[Server]:
    process = subprocess.Popen(
        [sys.executable, "-m", "chaosflow.engine"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout
    ready = json.loads(process.stdout.readline())
    cgroup = _own_cgroup(process.pid)
    yield Server(process, ready["listening"] + "/v1", cgroup)
    process.kill()
    process.wait()
    process.stdout.close()
    if cgroup:
        with contextlib.suppress(OSError):
            for _ in range(50):
                with contextlib.suppress(OSError):
                    cgroup.rmdir()
                    break
                time.sleep(0.02)


def _own_cgroup(pid: int) -> Path | None:
    mounts = [Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")]
    for mount in mounts:
        folder = mount / f"cf-test-{pid}"
        with contextlib.suppress(OSError):
            folder.mkdir()
            (folder / "cgroup.procs").write_text(str(pid))
            return folder
    return None
