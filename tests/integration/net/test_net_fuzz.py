"""kill -9 at a random instant while several network faults act on the packets of one target: nothing stays.

In the guest kernel ``net.netem`` is among them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from contract_rig import Rig
from contract_rigs_net import NET_RIGS
from fuzz_rig import Zygote, a_zygote, kinds, once
from net_rig import PORT, echo, needs_root, space

pytestmark = [*needs_root, pytest.mark.slow]


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    with a_zygote() as made:
        yield made


@pytest.mark.parametrize("seed", range(8), ids=lambda seed: f"net.*-{seed}")
def test_a_kill_at_a_random_instant_leaves_no_fault_of_several(zygote: Zygote, seed: int) -> None:
    dice, known = random.Random(seed), [kind for kind in kinds() if kind in NET_RIGS]
    with space() as where, echo(where, PORT):
        rigs = {}
        for kind in dice.sample(known, dice.randint(2, len(known))):
            with NET_RIGS[kind]() as alone:
                rigs[kind] = Rig(alone.params, where.host(), where.look)
        once(zygote, seed, rigs)
