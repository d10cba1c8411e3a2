"""kill -9 of an injector at a random instant, with random faults: a fresh process leaves nothing behind.

pumba 147, chaosd 207, litmus 2359: each is one instant, or one fault, of this test.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "contract"))

from fuzz_rig import Zygote, a_zygote, once, some_rigs

pytestmark = pytest.mark.slow


@pytest.fixture
def zygote() -> Iterator[Zygote]:
    with a_zygote() as made:
        yield made


@pytest.mark.parametrize("seed", range(20))
def test_a_kill_at_a_random_instant_leaves_nothing(zygote: Zygote, seed: int) -> None:
    with some_rigs(seed) as rigs:
        once(zygote, seed, rigs)


@pytest.mark.soak
def test_three_hundred_kills_at_random_instants_leave_nothing(zygote: Zygote) -> None:
    for seed in range(1000, 1300):
        with some_rigs(seed) as rigs:
            once(zygote, seed, rigs)
