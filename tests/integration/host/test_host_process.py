"""Descriptors, crash loops and drains of real processes."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from host_rig import helpers_left, host_for, supervised, swept, until
from process_rig import five_processes, started, wait_for

from chaosflow.core.host import ProcessRef
from chaosflow.faults.host_fd_exhaust import HostFdExhaust
from chaosflow.faults.process_crash_loop import ProcessCrashLoop
from chaosflow.faults.process_drain import ProcessDrain
from chaosflow.linux import procs

pytestmark = pytest.mark.slow

OPENER = """
import os, sys
got = []
print(flush=True)
for line in sys.stdin:
    try:
        got.append(os.open("/dev/null", os.O_RDONLY)); print(0, flush=True)
    except OSError as e:
        print(e.errno, flush=True)
"""


@contextlib.contextmanager
def serving(code: str) -> Iterator[subprocess.Popen[bytes]]:
    """A Python program with pipes; killed at the end."""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_the_target_may_open_so_many_and_then_no_more() -> None:
    with serving(OPENER) as process:
        assert process.stdout

        def opens() -> int:
            assert process.stdin
            assert process.stdout
            process.stdin.write(b"\n")
            process.stdin.flush()
            return int(process.stdout.readline())

        process.stdout.readline()
        before = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        atom = HostFdExhaust(headroom=2)
        undo = asyncio.run(atom.plan(host_for(process), "fds"))
        asyncio.run(atom.inject(undo))
        assert [opens() for _ in range(4)] == [0, 0, errno.EMFILE, errno.EMFILE]
        effect = asyncio.run(atom.is_active(undo))
        assert "0 descriptors left" in effect.evidence
        asyncio.run(atom.revert(undo))
        assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == before
        assert opens() == 0


def test_a_child_born_meanwhile_gets_its_limit_back_too() -> None:
    script = "import os, time\nwhile not os.path.exists('{0}'): time.sleep(0.01)\nos.fork(); time.sleep(1000)"
    with tempfile.TemporaryDirectory() as folder:
        go = Path(folder) / "go"
        with started(sys.executable, "-c", script.format(go)) as process:
            before = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
            host = host_for(process)
            atom = HostFdExhaust(headroom=30)
            undo = asyncio.run(atom.plan(host, "fds"))
            asyncio.run(atom.inject(undo))
            go.touch()
            wait_for(lambda: len(procs.tree(host.target.processes)) == 2, "a child")
            asyncio.run(atom.revert(undo))
            for ref in procs.tree(host.target.processes):
                assert resource.prlimit(ref.pid, resource.RLIMIT_NOFILE) == before


def test_a_crash_loop_kills_every_new_life_and_lets_go() -> None:
    """litmus-go 591: the target restarts in mid-fault, and is found again."""
    with swept(), supervised() as (host, file):
        atom = ProcessCrashLoop(alive_s=0.05)
        first = host.target.processes[0]
        undo = asyncio.run(atom.plan(host, "loop"))
        asyncio.run(atom.inject(undo))
        assert not first.alive()

        def kills() -> int:
            return int(asyncio.run(atom.is_active(undo)).evidence.split()[1])

        until(lambda: kills() >= 3, 20)
        asyncio.run(atom.revert(undo))
        assert helpers_left() == []
        wait_for(lambda: file.read_text().strip() != "", "a pid")
        until(lambda: ProcessRef.of(int(file.read_text())) is not None)
        last = ProcessRef.of(int(file.read_text()))
        assert last
        time.sleep(0.5)
        assert last.alive()


def test_a_crash_loop_stops_at_its_number() -> None:
    with swept(), supervised() as (host, file):
        atom = ProcessCrashLoop(alive_s=0, max_kills=2)
        undo = asyncio.run(atom.plan(host, "two"))
        asyncio.run(atom.inject(undo))
        until(lambda: "killed 2 times" in asyncio.run(atom.is_active(undo)).evidence, 20)
        until(lambda: (ref := ProcessRef.of(int(file.read_text()))) is not None and ref.alive())
        time.sleep(0.4)
        assert "killed 2 times" in asyncio.run(atom.is_active(undo)).evidence
        asyncio.run(atom.revert(undo))


def test_a_pid_alone_names_no_second_life() -> None:
    with started("sleep", "1000") as process:
        capability = ProcessCrashLoop().check(host_for(process))
        assert not capability.ok
        assert "listen_port" in capability.remedy


def test_the_included_engine_is_found_by_its_socket(tmp_path: Path) -> None:
    from chaosflow.faults._stress.kill_again import _find

    path = str(tmp_path / "s")
    assert _find({"control": path}) == ()
    code = "import socket, sys, time; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); time.sleep(9e3)"
    with started(sys.executable, "-c", code, path) as process:
        wait_for(lambda: bool(_find({"control": path})), "a listener")
        assert [ref.pid for ref in _find({"control": path})] == [process.pid]


GRACEFUL = "import signal, sys, time; signal.signal(15, lambda *_: (time.sleep({0}), sys.exit())); print(flush=True); time.sleep(9e3)"


def _ready(command: str) -> list[str]:
    return [sys.executable, "-c", command]


def test_a_drain_waits_for_the_target_to_end_by_itself() -> None:
    with started(*_ready(GRACEFUL.format(0.3))) as process:
        until(lambda: _handles_term(process.pid))
        atom = ProcessDrain(grace_s=20)
        undo = asyncio.run(atom.plan(host_for(process), "drain"))
        begin = time.monotonic()
        asyncio.run(atom.inject(undo))
        assert 0.3 <= time.monotonic() - begin < 15
        effect = asyncio.run(atom.is_active(undo))
        assert effect
        assert "ended by themselves 0" in effect.evidence


def test_what_outlives_its_grace_is_killed_and_the_result_says_so() -> None:
    with started(*_ready(GRACEFUL.format(9e3))) as process:
        until(lambda: _handles_term(process.pid))
        atom = ProcessDrain(grace_s=0.2)
        undo = asyncio.run(atom.plan(host_for(process), "drain"))
        asyncio.run(atom.inject(undo))
        effect = asyncio.run(atom.is_active(undo))
        assert effect
        assert "had to be killed" in effect.evidence


def test_what_outlives_its_grace_and_is_not_killed_is_not_confirmed() -> None:
    with started(*_ready(GRACEFUL.format(9e3))) as process:
        until(lambda: _handles_term(process.pid))
        atom = ProcessDrain(grace_s=0.1, then="nothing")
        undo = asyncio.run(atom.plan(host_for(process), "drain"))
        asyncio.run(atom.inject(undo))
        effect = asyncio.run(atom.is_active(undo))
        assert not effect
        assert "still run" in effect.evidence


def _handles_term(pid: int) -> bool:
    """Whether it has installed its handler (SigCgt of proc(5))."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("SigCgt"):
            return bool(int(line.split()[1], 16) & 1 << signal.SIGTERM - 1)
    return False


def test_processes_of_a_tree_are_all_limited() -> None:
    with five_processes() as process:
        atom = HostFdExhaust()
        undo = asyncio.run(atom.plan(host_for(process), "fds"))
        asyncio.run(atom.inject(undo))
        assert "5 of 5 processes limited" in asyncio.run(atom.is_active(undo)).evidence
        asyncio.run(atom.revert(undo))
        assert not asyncio.run(atom.is_active(undo))


def test_an_accept_fails_and_the_connection_waits() -> None:
    """The usual symptom: a server out of descriptors accepts nobody, and its port still answers."""
    code = (
        "import socket, sys, time\n"
        "s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True)\n"
        "while True:\n"
        "    try: c = s.accept()[0]; c.sendall(b'x')\n"
        "    except OSError: time.sleep(0.02)\n"
    )
    with serving(code) as process:
        assert process.stdout
        port = int(process.stdout.readline())
        atom = HostFdExhaust()
        undo = asyncio.run(atom.plan(host_for(process), "fds"))
        asyncio.run(atom.inject(undo))
        with socket.create_connection(("127.0.0.1", port), timeout=10) as first:
            assert first.recv(1) == b"x"  # accept(2) had reserved its number before it waited
            with socket.create_connection(("127.0.0.1", port), timeout=0.3) as second:
                with pytest.raises(TimeoutError):
                    second.recv(1)
                asyncio.run(atom.revert(undo))
                second.settimeout(10)
                assert second.recv(1) == b"x"
