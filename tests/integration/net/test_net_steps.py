"""A fault takes several steps. Whichever of them fails, it has failed, and nothing of it stays."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from net_rig import OTHER_PORT, PORT, Space, echo, needs_root, planned, round_trips_ms, space

from chaosflow.core.fault import Capability, FaultAtom
from chaosflow.faults._net.abilities import abilities
from chaosflow.faults._net.drop import BPF_RUNG
from chaosflow.faults.net_bandwidth import NetBandwidth
from chaosflow.faults.net_loss import NetLoss
from chaosflow.faults.net_netem import NetNetem
from chaosflow.linux import tc
from chaosflow.linux.netlink import Message

pytestmark = [*needs_root, pytest.mark.slow]
NOWHERE = 4_000_000


class LossByFilter(NetLoss):
    def rung_at(self, interface: str) -> Capability:
        return Capability.yes(BPF_RUNG)


@pytest.fixture
def where() -> Iterator[Space]:
    with space() as made, echo(made, PORT, OTHER_PORT):
        yield made


ATOMS: list[FaultAtom] = (
    [NetNetem(delay_ms=20, jitter_ms=5, loss_percent=1, direction="both")]  # in the guest
    if abilities().netem
    else [NetBandwidth(rate_mbit_per_s=50, direction="both"), LossByFilter(percent=10, direction="both")]
)


@pytest.mark.parametrize("atom", ATOMS, ids=lambda atom: atom.kind)
@pytest.mark.parametrize("step", ["qdisc_message", "up_message", "clsact_message", "bpf_filter_message"])
@pytest.mark.parametrize("nth", [0, 1])
def test_any_step_that_fails_is_a_failure_and_leaves_nothing(
    where: Space, atom: FaultAtom, step: str, nth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """krkn source: an error only if all tc commands failed. Chaos Mesh source: only the last one counted."""
    before, undo = where.look(), planned(atom, where.host())
    real, calls = getattr(tc, step), 0

    def refused(*args: Any, **more: Any) -> Message:
        """A message that the kernel itself refuses: it is for a device that does not exist."""
        nonlocal calls
        calls += 1
        made: Message = real(*args, **more)
        return real(NOWHERE, *args[1:], **more) if calls == nth + 1 else made

    with monkeypatch.context() as patch:
        patch.setattr(tc, step, refused)
        failed = False
        try:
            asyncio.run(atom.inject(undo))
        except OSError:
            failed = True
    assert failed == (calls > nth), "a step failed, and the injection says that it went well"
    asyncio.run(atom.revert(undo))
    assert not asyncio.run(atom.is_active(undo))
    assert where.look() == before
    assert round_trips_ms(where, count=3)
