"""Samples -> cells: who is counted, when, and never twice. Synthetic records; 1 unit = 1 ms."""

from __future__ import annotations

from chaosflow.core.grammar import parse_objective
from chaosflow.core.sample import Outcome, RequestRecord
from chaosflow.core.segments import Mark, MarkKind
from chaosflow.core.slots import Cell, CellStore
from chaosflow.load.fold import Folder

MS = 1_000_000
OBJECTIVES = [
    "ttft.p95 <= 200ms",
    "e2e.p99 <= 1s",
    "gap.p99 <= 100ms",
    "error_rate <= 1%",
    "goodput >= 90%",
    "completeness >= 90%",
    "tpot.p95 <= 50ms",
    "ttft.p95 <= 2x baseline",
]
TTFT, E2E, GAP, ERRORS, GOODPUT, COMPLETE, TPOT, RELATIVE = range(8)


class Bench:
    """A folder with baseline from 0, and a store that its batches go to."""

    def __init__(self, *objectives: str) -> None:
        parsed = [parse_objective(text) for text in objectives or OBJECTIVES]
        self.folder = Folder("0", parsed, ["pause"], 0)
        self.folder.add_mark(Mark(MarkKind.BASELINE_BEGIN, 0))
        self.store = CellStore()
        self._index = 0

    def fault(self, begin_ms: int, end_ms: int) -> None:
        for kind, at_ms in (
            (MarkKind.BASELINE_END, begin_ms),
            (MarkKind.INJECT_BEGIN, begin_ms),
            (MarkKind.INJECT_ACK, begin_ms),
            (MarkKind.REVERT_BEGIN, end_ms),
            (MarkKind.REVERT_ACK, end_ms),
        ):
            self.folder.add_mark(Mark(kind, at_ms * MS, "pause"))

    def request(
        self,
        sched_ms: int,
        events_ms: list[float],
        end_ms: int | None = None,
        outcome: Outcome = Outcome.OK,
        usage: int | None = None,
        lows_ms: list[float] | None = None,
    ) -> RequestRecord:
        record = RequestRecord(self._index, sched_ms * MS, fire_ns=sched_ms * MS)
        self._index += 1
        self.folder.fired(record)
        self.events(record, events_ms, lows_ms)
        if end_ms is not None:
            self.end(record, end_ms, outcome, usage)
        return record

    def events(self, record: RequestRecord, at_ms: list[float], lows_ms: list[float] | None = None) -> None:
        record.event_ns.extend(round(t * MS) for t in at_ms)
        record.event_low_ns.extend(round(t * MS) for t in lows_ms or at_ms)

    def end(
        self, record: RequestRecord, at_ms: int, outcome: Outcome = Outcome.OK, usage: int | None = None
    ) -> None:
        record.end_ns, record.outcome, record.saw_done = at_ms * MS, outcome, outcome is Outcome.OK
        record.tokens = len(record.event_ns) if usage is None else usage
        record.tokens_by_usage = usage is not None

    def fold(self, until_ms: int) -> None:
        self.folder.fold_all(until_ms * MS)
        assert self.store.merge(self.folder.take(until_ms * MS, self.folder.unfolded, {}))

    def total(self, objective: int, segment: str = "baseline") -> Cell:
        return self.store.total(segment, objective)

    def seconds(self, objective: int, segment: str = "baseline") -> list[int]:
        return [s for s, _ in self.store.blocks(segment, objective)]


def all_bad(n: int) -> Cell:
    return Cell(n, n, n, n, n)


def test_a_good_request_is_counted_once_for_everything_when_it_ends() -> None:
    bench = Bench()
    bench.request(900, [920, 960, 990], 1_050)
    bench.fold(995)
    bench.fold(2_000)
    bench.fold(3_000)
    for objective in (TTFT, E2E, ERRORS, GOODPUT, COMPLETE, TPOT):
        assert bench.total(objective) == Cell(1), objective
        assert bench.seconds(objective) == [1]
    assert bench.total(GAP) == Cell(2)
    count = bench.store.counts[(0, "baseline")]
    assert (count.scheduled, count.fired, count.events, count.tokens) == (1, 1, 3, 3)
    ended = bench.store.counts[(1, "*")]
    assert (ended.resolved, ended.failed, ended.complete) == (1, 0, 1)
    assert bench.store.outcomes == {("baseline", "ok"): 1}
    assert bench.folder.unfolded == 0


def test_a_hang_is_seen_at_the_limit_and_not_at_the_end() -> None:
    bench = Bench()
    hanging = bench.request(500, [])
    bench.fold(690)
    assert bench.total(TTFT).n == 0
    bench.fold(710)
    assert bench.total(TTFT) == all_bad(1)
    assert bench.total(GOODPUT) == all_bad(1)
    assert bench.total(E2E).n == 0
    bench.fold(1_600)
    assert bench.total(E2E) == all_bad(1)
    bench.end(hanging, 9_000, Outcome.DEADLINE)
    bench.fold(10_000)
    for objective in (TTFT, E2E, GOODPUT, ERRORS, COMPLETE, TPOT):
        assert bench.total(objective) == all_bad(1), objective
    assert bench.seconds(TTFT) == [0]
    assert bench.seconds(E2E) == [1]
    assert bench.seconds(ERRORS) == [9]


def test_the_moment_of_counting_does_not_depend_on_how_often_it_is_folded() -> None:
    totals = []
    for step in (10, 170, 5_000):
        bench = Bench()
        bench.fault(1_000, 2_000)
        records = [
            bench.request(900, [950, 1_600], 2_900),
            bench.request(1_100, [], 1_200, Outcome.RESET),
            bench.request(100, [150, 240], 300, usage=5),
            bench.request(1_900, [1_910], 4_000, Outcome.DEADLINE),
        ]
        assert records
        for until in range(step, 5_001, step):
            bench.fold(until)
        totals.append((bench.store.cells, {k: v for k, v in bench.store.counts.items() if v.tokens}))
    assert totals[0][0] == totals[1][0] == totals[2][0]


def test_fast_failures_are_over_the_limit() -> None:
    """locust 1363: fast 503s may not improve the latency."""
    bench = Bench()
    bench.request(100, [], 101, Outcome.HTTP)
    bench.fold(1_000)
    for objective in (TTFT, E2E, TPOT, ERRORS, GOODPUT, COMPLETE):
        assert bench.total(objective) == all_bad(1), objective
    assert ("baseline", "ttft") not in bench.store.by_segment


def test_a_failure_after_a_prompt_first_token_is_over_the_limit_too() -> None:
    bench = Bench()
    bench.request(100, [150, 190], 250, Outcome.TRUNCATED)
    bench.fold(1_000)
    assert bench.total(TTFT) == all_bad(1)
    assert bench.total(GAP) == Cell(1)


def test_tpot_is_absent_below_two_tokens() -> None:
    """vllm-omni 6693: absent, not 0."""
    bench = Bench()
    bench.request(100, [150], 160)
    bench.fold(1_000)
    assert bench.total(TPOT).n == 0
    assert bench.total(TTFT).n == 1


def test_a_cancelled_request_is_censored_unless_it_had_exceeded() -> None:
    bench = Bench()
    bench.request(100, [150], 250, Outcome.CANCELLED)
    bench.request(100, [], 450, Outcome.CANCELLED)
    bench.fold(1_000)
    assert bench.total(TTFT) == Cell(2, 1, 1, 1, 1)  # the first token that came is known all the same
    assert bench.total(E2E).n == 0
    assert bench.total(ERRORS).n == 0
    assert bench.store.outcomes == {("baseline", "cancelled"): 2}
    assert (0, "*") in bench.store.counts
    assert bench.store.counts[(0, "*")].resolved == 0


def test_interval_stamps_are_counted_at_both_ends() -> None:
    bench = Bench()
    bench.request(0, [210, 350], 400, lows_ms=[190, 280])
    bench.fold(1_000)
    assert bench.total(TTFT) == Cell(1, 0, 1, 0, 1)  # 190 to 210 against 200
    assert bench.total(GAP) == Cell(1, 0, 1, 0, 1)  # 70 to 160 against 100
    assert bench.store.counts[(0, "*")].interval_events == 2


def test_an_open_stall_is_counted_once_while_it_lasts() -> None:
    bench = Bench()
    stalled = bench.request(0, [50, 90])
    bench.fold(180)
    assert bench.total(GAP) == Cell(1)
    bench.fold(200)
    assert bench.total(GAP) == Cell(2, 1, 1, 1, 1)
    bench.events(stalled, [1_500, 1_540])
    bench.end(stalled, 1_600)
    bench.fold(3_000)
    assert bench.total(GAP) == Cell(3, 1, 1, 1, 1)


def test_a_stall_belongs_to_the_segment_in_which_it_exceeds() -> None:
    bench = Bench()
    bench.fault(1_000, 3_000)
    bench.request(900, [950, 990, 3_010], 3_020)
    bench.fold(4_000)
    assert bench.total(GAP, "baseline") == Cell(1)
    assert bench.total(GAP, "pause") == all_bad(1)
    assert bench.total(GAP, "pause.recovery").n == 0


def test_a_request_belongs_to_every_fault_its_life_touches() -> None:
    bench = Bench()
    bench.fault(1_000, 2_000)
    bench.request(950, [960], 1_050)
    bench.request(2_050, [2_060], 2_100)
    bench.fold(4_000)
    assert bench.total(ERRORS, "baseline").n == 0
    assert bench.total(ERRORS, "pause").n == 1
    assert bench.total(ERRORS, "pause.recovery").n == 1


def test_usage_corrects_the_tokens_where_the_stream_ends() -> None:
    bench = Bench()
    bench.request(0, [100, 200], 1_500, usage=7)
    bench.fold(2_000)
    assert bench.store.counts[(0, "*")].tokens == 2
    assert bench.store.counts[(1, "*")].tokens == 5


def test_tokens_of_failed_streams_stand_apart() -> None:
    bench = Bench()
    bench.request(0, [100, 200], 300, Outcome.RESET)
    bench.fold(2_000)
    count = bench.store.counts[(0, "*")]
    assert (count.tokens, count.failed_tokens, count.failed) == (0, 2, 1)


def test_a_lost_arrival_is_scheduled_and_not_fired() -> None:
    """guidellm 487, 1041: a cap is never silent."""
    bench = Bench()
    bench.folder.lost(100 * MS)
    bench.fold(1_000)
    count = bench.store.counts[(0, "baseline")]
    assert (count.scheduled, count.fired) == (1, 0)


def test_a_relative_limit_counts_from_its_announcement_on_with_two_limits() -> None:
    bench = Bench()
    bench.fault(1_000, 2_000)
    bench.request(0, [100], 150)
    bench.fold(900)
    assert bench.total(RELATIVE).n == 0
    bench.folder.set_limits({RELATIVE: (0.3, 0.2)})
    bench.request(1_000, [1_250], 1_400)  # between the limits
    bench.request(1_000, [1_350], 1_400)  # above both
    bench.fold(3_000)
    bench.request(10, [900], 950)
    bench.fold(3_001)
    assert bench.total(RELATIVE, "pause") == Cell(2, 1, 1, 2, 2)
    assert bench.total(RELATIVE, "baseline").n == 0  # the measure, not the measured


def test_goodput_heeds_only_objectives_that_hold_for_the_segment() -> None:
    bench = Bench("ttft.p95 <= 10ms during pause", "goodput >= 90%")
    bench.fault(1_000, 2_000)
    bench.request(0, [100], 150)
    bench.request(1_100, [1_200], 1_250)
    bench.fold(3_000)
    assert bench.total(1, "baseline") == Cell(1)
    assert bench.total(1, "pause") == all_bad(1)


def test_nothing_beyond_the_horizon_is_counted() -> None:
    bench = Bench()
    bench.request(100, [200, 1_200], 1_300)
    bench.fold(1_000)
    assert bench.store.counts[(0, "*")].events == 1
    assert (1, "*") not in bench.store.counts
    assert bench.folder.unfolded == 1


def test_batches_are_numbered_and_merge_to_the_same_sums_from_two_workers() -> None:
    parsed = [parse_objective(text) for text in OBJECTIVES]
    store = CellStore()
    for worker in ("0", "1"):
        folder = Folder(worker, parsed, [], 0)
        folder.add_mark(Mark(MarkKind.BASELINE_BEGIN, 0))
        for index in range(3):
            record = RequestRecord(index, 0, end_ns=50 * MS, saw_done=True)
            record.event_ns.append(40 * MS)
            record.event_low_ns.append(40 * MS)
            folder.fired(record)
        folder.fold_all()
        batch = folder.take(100 * MS, 0, {})
        assert batch.seq == 1
        assert store.merge(batch)
        assert folder.take(100 * MS, 0, {}, final=True).seq == 2
    assert store.total("baseline", TTFT) == Cell(6)
    assert store.faults_seen == []
