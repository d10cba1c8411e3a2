"""Suites of somebody else's, run by a pytest of their own, and a close look at what they leave behind."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from chaosflow.core.host import RUN_VARIABLE, state

SAMPLE = Path(__file__).parents[2] / "sample_repo"
INI = """
[pytest]
addopts = --strict-markers --strict-config -p no:cacheprovider
filterwarnings = error
"""
LOAD = "rate_per_s=30, prompt_tokens=16, output_tokens=8, warmup='500ms'"


def _hear_ctrl_c() -> None:
    """A shell's background job, and whatever it starts, ignores Ctrl-C: these tests may be part of one."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@dataclass
class Done:
    code: int
    text: str
    cases: dict[str, ET.Element]

    def messages(self, test: str) -> str:
        """What JUnit says of a test that did not pass; empty where it did."""
        found = [e for tag in ("failure", "error", "skipped") for e in self.cases[test].findall(tag)]
        return "\n".join(f"{e.tag}: {e.get('message', '')}" for e in found)

    def properties(self, test: str) -> dict[str, str]:
        return {p.get("name", ""): p.get("value", "") for p in self.cases[test].iter("property")}


@dataclass
class Suite:
    """A folder with tests; short, since sockets lie below it."""

    top: Path
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def env(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "CHAOSFLOW"))}
        return {**kept, "CHAOSFLOW_STATE_DIR": str(self.top / "s"), "PYTHONPATH": str(self.top / "lib")}

    def write(self, name: str, text: str) -> Path:
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    def start(self, *options: str) -> subprocess.Popen[str]:
        if not (self.top / "pytest.ini").exists():
            self.write("pytest.ini", INI)
        log = (self.top / "out.txt").open("w")
        with log:
            process = subprocess.Popen(
                [sys.executable, "-m", "pytest", "--junit-xml", "junit.xml", *options],
                cwd=self.top, env=self.env, text=True, stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=_hear_ctrl_c,
            )  # fmt: skip
        self.processes.append(process)
        return process

    def run(self, *options: str, timeout_s: float = 100) -> Done:
        process = self.start(*options)
        process.wait(timeout_s)
        return self.done(process)

    def done(self, process: subprocess.Popen[str]) -> Done:
        text = self.text
        cases = {}
        with contextlib.suppress(FileNotFoundError, ET.ParseError):
            for case in ET.parse(self.top / "junit.xml").iter("testcase"):
                name = re.sub(r"@.*", "", case.get("name", ""))
                cases.setdefault(name, ET.Element("testcase")).extend(case)  # call and teardown
        return Done(process.returncode, text, cases)

    @property
    def text(self) -> str:
        return (self.top / "out.txt").read_text(errors="replace")

    def until(self, path: str, process: subprocess.Popen[str], timeout_s: float = 40) -> None:
        """Wait until a test has written that file."""
        give_up = time.monotonic() + timeout_s
        while not (self.top / path).exists():
            assert process.poll() is None, self.text
            assert time.monotonic() < give_up, self.text
            time.sleep(0.02)

    def leftovers(self) -> list[str]:
        """Every helper process, watchdog and journal of this suite that is still there."""
        found = [f"journal {p}" for p in (self.top / "s").glob("*/undo.jsonl")]
        marker = str(self.top).encode()
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                environment, command = (entry / "environ").read_bytes(), (entry / "cmdline").read_bytes()
                ours = f"{RUN_VARIABLE}=".encode() in environment or b"chaosflow.watchdog" in command
                if ours and marker in environment and state(int(entry.name)) not in "ZX":
                    found.append(f"process {entry.name} {command[:120]!r}")
        return found

    def wait_until_clean(self, within_s: float) -> list[str]:
        """What is still left at the end."""
        give_up = time.monotonic() + within_s
        while (left := self.leftovers()) and time.monotonic() < give_up:
            time.sleep(0.05)
        return left


@contextlib.contextmanager
def new_suite() -> Iterator[Suite]:
    made = Suite(Path(tempfile.mkdtemp(prefix="cfp-", dir="/tmp")))
    try:
        yield made
        assert made.wait_until_clean(5.0) == []
    finally:
        for process in made.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(15)
            if process.poll() is None:
                process.kill()
                process.wait()
        shutil.rmtree(made.top, ignore_errors=True)


@contextlib.contextmanager
def user_server() -> Iterator[tuple[str, int]]:
    """(url, pid) of a server that somebody else started."""
    process = subprocess.Popen(
        [sys.executable, "-m", "chaosflow.engine"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout
    try:
        ready = json.loads(process.stdout.readline())
        yield ready["listening"] + "/v1", process.pid
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
