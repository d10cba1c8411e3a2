"""What the ``sim`` backend says: readable words, the same for the same seed."""

from __future__ import annotations

from chaosflow.engine.infer.backend import Sampled

_WORDS = """
the a one some every this that no more most water light river stone garden window morning evening
winter summer letter bridge market harbour island mountain valley forest field road street house
kitchen table chair lamp clock mirror picture story song voice answer question reason idea plan
number figure shape colour sound silence distance moment hour day week month year world country city
village friend teacher doctor sailor farmer painter writer reader child mother father sister brother
walks runs turns opens closes carries brings takes gives holds keeps finds loses sees hears knows
thinks says asks tells writes reads draws builds breaks mends grows falls rises moves waits stays
begins ends follows leads crosses reaches leaves returns slowly quickly quietly gently often never
always sometimes again still almost together alone far near above below behind beyond between under
over through across around along against before after during without within and but or so because
while until although if when where small large old young new bright dark warm cold deep high low long
short wide narrow soft hard open empty full clear plain strange common early late ready certain
""".split()  # noqa: SIM905
VOCABULARY = tuple(Sampled(" " + word) for word in _WORDS)
_ENDS = tuple(Sampled(sampled.text, end=True) for sampled in VOCABULARY)
_MIX = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


def _hash(seed: int, index: int) -> int:
    """splitmix64 of (seed, index): cheap, and the same on every machine."""
    z = (seed + (index + 1) * _MIX) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def word(seed: int, index: int, *, end: bool = False) -> Sampled:
    """Token ``index`` of the text with that seed."""
    return (_ENDS if end else VOCABULARY)[_hash(seed, index) % len(VOCABULARY)]


def natural_length(seed: int) -> int:
    """Where that text ends of itself: 48 to 240 tokens."""
    return 48 + _hash(seed, 1 << 40) % 193
