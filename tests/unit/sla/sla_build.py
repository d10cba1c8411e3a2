"""Evidence made by hand: what a run of the load would have left in the store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from chaosflow.core.grammar import parse_objective
from chaosflow.core.histogram import Histogram
from chaosflow.core.segments import Mark, MarkKind, SegmentMap
from chaosflow.core.slots import Blocks, Cell, CellStore, Count
from chaosflow.sla.evidence import Evidence, FaultFact

NS = 1_000_000_000
T0_NS = 1_000 * NS


def cells(pairs: Iterable[tuple[int, int]], first: int = 0) -> Blocks:
    """Blocks of exact samples: one (n, k) a second."""
    return Blocks.of((first + i, Cell(n, k, k, k, k)) for i, (n, k) in enumerate(pairs))


def spread(n: int, k: int, seconds: int = 60) -> Blocks:
    """n samples and k exceedances, as even as can be."""
    share = [
        (n * (i + 1) // seconds - n * i // seconds, k * (i + 1) // seconds - k * i // seconds)
        for i in range(seconds)
    ]
    return cells(share)


def segment_map(
    baseline: tuple[float, float] | None = (5, 65),
    faults: dict[str, tuple[float, float, float]] | None = None,
    irreversible: Sequence[str] = (),
) -> SegmentMap:
    """Baseline (begin, end) and faults name -> (inject, revert, recovery end), in s from T0."""
    made = SegmentMap()
    if baseline:
        made.add(Mark(MarkKind.BASELINE_BEGIN, T0_NS + int(baseline[0] * NS)))
        made.add(Mark(MarkKind.BASELINE_END, T0_NS + int(baseline[1] * NS)))
    for name, (inject, revert, end) in (faults or {}).items():
        times = {MarkKind.INJECT_BEGIN: inject, MarkKind.INJECT_ACK: inject, MarkKind.RECOVERY_END: end}
        if name not in irreversible:
            times |= {MarkKind.REVERT_BEGIN: revert, MarkKind.REVERT_ACK: revert}
        for kind, at_s in times.items():
            made.add(Mark(kind, T0_NS + int(at_s * NS), name, name not in irreversible))
    return made


def fill(store: CellStore, segment: str, index: int, blocks: Iterable[tuple[int, Cell]]) -> None:
    for second, cell in blocks:
        store.cells[second, segment, index] = cell


def traffic(
    store: CellStore,
    seconds: Iterable[int],
    *,
    requests: int = 20,
    failed: int = 0,
    tokens: int | None = None,
    ttft_s: float = 0.05,
    gap_s: float = 0.01,
) -> None:
    """The true totals of some seconds, and their medians."""
    for s in seconds:
        made = (requests - failed) * 10 if tokens is None else tokens
        store.counts[s, "*"] = Count(
            scheduled=requests,
            fired=requests,
            resolved=requests,
            failed=failed,
            complete=requests - failed,
            tokens=made,
            events=made,
        )
        for metric, value in (("ttft", ttft_s), ("gap", gap_s)):
            store.median_s.pop((s, metric), None)
            if made:
                store.median_s[s, metric] = value


def histogram(values_s: Iterable[float]) -> Histogram:
    made = Histogram()
    for value in values_s:
        made.add(value * NS)
    return made


def evidence(objectives: Sequence[str], *, baseline_s: float = 60, faults: Sequence[str] = ()) -> Evidence:
    """A sound run at 20 requests/s: baseline, then each fault for 30 s and 30 s of recovery; no cells yet."""
    store = CellStore()
    at_s = 5 + baseline_s
    times = {}
    for name in faults:
        times[name] = (at_s, at_s + 30, at_s + 60)
        at_s += 60
    traffic(store, range(int(at_s)))
    return Evidence(
        objectives=tuple(parse_objective(text) for text in objectives),
        store=store,
        segments=segment_map((5, 5 + baseline_s), times),
        t0_ns=T0_NS,
        faults=tuple(FaultFact(name, confirmed=True) for name in faults),
        rate_per_s=20,
        ended_ns=T0_NS + int(at_s * NS),
    )


def with_samples(made: Evidence, index: int, segment: str, n: int, k: int) -> Evidence:
    """n samples, k over the limit, spread over the segment's seconds."""
    span = next(s for s in made.segments.spans() if s.name == segment)
    first = (span.begin_ns - T0_NS) // NS
    length = max(1, ((span.end_ns or span.begin_ns) - span.begin_ns) // NS)
    fill(made.store, segment, index, ((first + s, c) for s, c in spread(n, k, length)))
    return replace(made)
