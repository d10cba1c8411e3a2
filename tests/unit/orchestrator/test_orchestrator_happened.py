"""What happened is told as if it had been planned."""

from __future__ import annotations

from chaosflow.core.fault import Capability
from chaosflow.orchestrator.byhand import make_atom
from chaosflow.orchestrator.catalogue import load_atoms
from chaosflow.orchestrator.happened import Happened, Seen
from chaosflow.orchestrator.injector import FaultRecord

S = 1_000_000_000
ATOMS = load_atoms()


def record(name: str, begin_s: float, revert_s: float | None = None) -> FaultRecord:
    atom = make_atom("proxy.latency", {"delay_ms": 40}, ATOMS)
    made = FaultRecord(name, atom, int(begin_s * S), None, Capability.yes("a proxy"))
    made.inject_begin_ns = int(begin_s * S)
    made.revert_begin_ns = None if revert_s is None else int(revert_s * S)
    return made


def test_baseline_fault_and_recovery() -> None:
    seen = Seen(record("slow", 15, 25), recovery_begin_ns=25 * S, recovery_end_ns=30 * S)
    found = Happened(1.0, 10 * S, 15 * S, 30 * S, seen={"slow": seen})
    timeline = found.timeline()
    assert (timeline.baseline_s, timeline.end_s) == (5.0, 15.0)
    step = timeline.step("slow")
    assert (step.inject_s, step.revert_s, step.recovery_end_s, step.recovery_measured) == (0, 10, 15, True)
    told = found.steps()[0]
    assert (told.name, told.type) == ("slow", "proxy.latency")
    assert told.params["delay_ms"] == 40
    assert told.model_dump().get("duration") is None, "measured, not set: each run of a test has another"


def test_what_is_shorter_than_a_second_is_not_judged() -> None:
    seen = Seen(record("slow", 10.9, 20), recovery_begin_ns=20 * S, recovery_end_ns=int(20.5 * S))
    timeline = Happened(1.0, 10 * S, int(10.9 * S), int(20.5 * S), seen={"slow": seen}).timeline()
    assert timeline.baseline_s == 0.0
    assert not timeline.step("slow").recovery_measured


def test_a_watch_inside_a_fault_has_no_baseline_and_the_fault_no_end() -> None:
    seen = Seen(record("slow", 5))
    found = Happened(1.0, 10 * S, 10 * S, 20 * S, within_fault=True, seen={"slow": seen})
    timeline = found.timeline()
    assert timeline.baseline_s == 0.0
    step = timeline.step("slow")
    assert (step.inject_s, step.revert_s, step.recovery_measured) == (0.0, 10.0, False)


def test_a_recovery_in_which_another_fault_acted_is_not_measured() -> None:
    seen = Seen(record("inner", 12, 15), recovery_begin_ns=15 * S, recovery_end_ns=25 * S, alone=False)
    timeline = Happened(1.0, 0, 12 * S, 25 * S, seen={"inner": seen}).timeline()
    assert not timeline.step("inner").recovery_measured
