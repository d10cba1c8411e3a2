"""However a session ends, nothing stays behind; and where something does, that is no pass."""

from __future__ import annotations

import os
import signal
import time

import pytest
from pytest_rig import Suite

from chaosflow.core.host import state

pytestmark = pytest.mark.slow

FREEZE = """\
import pathlib, time

def test_freeze(fault):
    with fault("process.pause"):
        pathlib.Path("frozen").write_text("")
        time.sleep(60)

def test_next(chaos_target):
    pathlib.Path("next").write_text("")
"""


def _resumed(pid: int, within_s: float) -> bool:
    give_up = time.monotonic() + within_s
    while state(pid) == "T" and time.monotonic() < give_up:
        time.sleep(0.02)
    return state(pid) != "T"


def test_ctrl_c_undoes_before_pytest_ends(suite: Suite, server: tuple[str, int]) -> None:
    url, pid = server
    suite.write("tests/test_it.py", FREEZE)
    process = suite.start("--chaos-url", url, "--chaos-process", f"pid={pid}")
    suite.until("frozen", process)
    assert state(pid) == "T"
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)  # whoever is impatient presses twice
    process.wait(60)
    assert state(pid) != "T"
    assert process.returncode == 2, suite.text
    assert "KeyboardInterrupt" in suite.text
    assert not (suite.top / "next").exists()


def test_kill_9_is_undone_by_the_watchdog(suite: Suite, server: tuple[str, int]) -> None:
    """pumba 147, for a fault that a test injected."""
    url, pid = server
    suite.write("tests/test_it.py", FREEZE)
    process = suite.start("--chaos-url", url, "--chaos-process", f"pid={pid}")
    suite.until("frozen", process)
    os.kill(process.pid, signal.SIGKILL)
    assert _resumed(pid, within_s=8)
    assert suite.wait_until_clean(8) == []


STUBBORN = '''\
from pathlib import Path

from chaosflow.core.fault import Capability, Effect, FaultAtom, Undo


class Stubborn(FaultAtom):
    """A third party's fault that does not let go while a file named stuck is there."""

    kind = "test.stubborn"

    def check(self, host):
        return Capability.yes("a file")

    async def plan(self, host, name):
        return Undo(kind=self.kind, name=name, run_id=host.run_id, state={"at": str(Path.cwd())}, manual="rm it stuck")

    async def inject(self, undo):
        for name in ("it", "stuck"):
            Path(undo.state["at"], name).touch()

    @staticmethod
    async def is_active(undo):
        found = Path(undo.state["at"], "it").exists()
        return Effect(found, f"the file is {'there' if found else 'gone'}")

    @staticmethod
    async def revert(undo):
        if not Path(undo.state["at"], "stuck").exists():
            Path(undo.state["at"], "it").unlink(missing_ok=True)
'''


def test_what_cannot_be_undone_fails_its_test_and_ends_the_session(
    suite: Suite, server: tuple[str, int]
) -> None:
    suite.write("lib/stubborn.py", STUBBORN)
    suite.write("lib/stubborn-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: stubborn\nVersion: 1\n")
    suite.write("lib/stubborn-1.dist-info/entry_points.txt", "[chaosflow.faults]\ns = stubborn:Stubborn\n")
    suite.write(
        "tests/test_it.py",
        """\
        def test_stubborn(fault):
            with fault("test.stubborn"):
                pass

        def test_next(chaos_target): ...
        """,
    )
    done = suite.run("--chaos-url", server[0])
    assert done.code == 1, done.text
    message = done.messages("test_stubborn")
    assert "NotUndone" in message
    assert "by hand: rm it stuck" in message
    assert "test_next" not in done.cases  # nothing more is tested on this machine
    assert "a fault could not be undone; nothing more is tested" in done.text
    assert any(left.startswith("journal ") for left in suite.leftovers())
    (suite.top / "stuck").unlink()
    done = suite.run("--chaos-url", server[0], "-k", "next")  # the next session heals it
    assert done.code == 0, done.text
    assert not (suite.top / "it").exists()
