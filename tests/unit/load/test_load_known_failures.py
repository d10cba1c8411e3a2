"""What earlier load tools got wrong, one test for each kind; sockets and processes have theirs in integration/load."""

from __future__ import annotations

import pytest

from chaosflow.core.grammar import parse_objective
from chaosflow.core.histogram import Histogram
from chaosflow.core.sample import Outcome, RequestRecord
from chaosflow.core.segments import Mark, MarkKind
from chaosflow.core.slots import CellStore
from chaosflow.core.tracefile import parse_trace
from chaosflow.load.exchange import Exchange
from chaosflow.load.fold import Folder
from chaosflow.load.judge import value_of
from chaosflow.load.requests import Request

MS = 1_000_000
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
ROLE = b'{"choices":[{"delta":{"role":"assistant","content":""}}]}'
TOKEN = b'{"choices":[{"delta":{"content":"word"}}]}'
THOUGHT = b'{"choices":[{"delta":{"content":null,"reasoning_content":"hmm"}}]}'
USAGE = b'{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":%d}}'
DONE = b"[DONE]"


def event(data: bytes) -> bytes:
    return b"data: %s\n\n" % data


def play(*reads: bytes, sched_ms: int = 0, sent_ms: int = 100, one_segment: bool = False) -> RequestRecord:
    """Reads 10 ms apart, the first at 110 ms; then an orderly close."""
    record = RequestRecord(0, sched_ms * MS, fire_ns=sent_ms * MS, sent_ns=sent_ms * MS)
    exchange = Exchange(record, lambda: None)
    now_ns = sent_ms * MS
    for read in (HEAD, *reads):
        exchange.feed(read, now_ns + 10 * MS, now_ns, one_segment=one_segment)
        now_ns += 10 * MS
    exchange.ended(now_ns + MS)
    return record


def folded(*records: RequestRecord, objectives: tuple[str, ...] = ("ttft.p99 <= 1s",)) -> CellStore:
    folder = Folder("0", [parse_objective(o) for o in objectives], [], 0)
    folder.add_mark(Mark(MarkKind.BASELINE_BEGIN, 0))
    for index, record in enumerate(records):
        record.index = index
        folder.fired(record)
    folder.fold_all()
    store = CellStore()
    store.merge(folder.take(0, 0, {}, final=True))
    return store


def test_a_role_chunk_does_not_end_the_time_to_first_token() -> None:
    """vllm 27485."""
    record = play(event(ROLE), event(TOKEN), event(DONE), sched_ms=100)
    assert record.ttft_ns == 30 * MS


def test_the_gap_between_chunks_is_not_sold_as_that_between_tokens() -> None:
    """vllm 15106: usage tells how many tokens the chunks held; the time per token follows from it."""
    record = play(event(TOKEN), event(TOKEN), event(USAGE % 5), event(DONE))
    assert record.tpot_ns == 10 * MS / 4
    gaps = folded(record, objectives=("gap.p99 <= 1s",)).by_segment["baseline", "gap"]
    assert gaps.total == 1, "the gap is that of the two events, whatever tokens they held"


def test_a_200_with_nothing_but_done_is_no_success() -> None:
    """vllm PR 54708."""
    record = play(event(DONE))
    assert (record.outcome, record.ttft_ns) == (Outcome.TRUNCATED, None)


def test_waiting_for_the_client_itself_is_part_of_the_latency() -> None:
    """vllm 54101: time before the request was sent was missing."""
    record = play(event(TOKEN), event(DONE), sched_ms=0, sent_ms=5000)
    assert record.lag_ns == 5000 * MS
    assert record.ttft_ns == 5020 * MS
    assert record.e2e_ns == 5030 * MS


def test_comment_lines_and_usage_chunks_break_nothing() -> None:
    """sglang 37986, 5451."""
    record = play(b": ping\n\n", event(TOKEN) + b": ping", b"\n\n" + event(USAGE % 1), event(DONE))
    assert (record.outcome, record.tokens) == (Outcome.OK, 1)


def test_lengths_are_what_came_and_nothing_is_divided_by_zero() -> None:
    """sglang 24254, PR 26497."""
    one = play(event(TOKEN), event(DONE))
    assert (one.tokens, one.tpot_ns) == (1, None)
    none = play(event(ROLE), event(USAGE % 0), event(DONE))
    assert (none.tokens, none.tpot_ns, none.ttft_ns) == (0, None, None)
    assert value_of("tpot", none) is None
    folded(one, none, objectives=("tpot.p99 <= 1s", "gap.p99 <= 1s"))


def test_reasoning_is_output() -> None:
    """sglang 23949, inference-perf 559: all-zero metrics for streams that think first."""
    record = play(event(ROLE), event(THOUGHT), event(THOUGHT), event(TOKEN), event(DONE), sched_ms=100)
    assert (record.ttft_ns, record.tokens) == (30 * MS, 3)


def test_an_error_inside_a_200_is_a_failure() -> None:
    """guidellm 743."""
    record = play(event(TOKEN), event(b'{"error":{"message":"out of memory"}}'), event(DONE))
    assert (record.outcome, record.error) == (Outcome.ERROR_EVENT, "out of memory")


def test_a_first_token_that_never_came_is_censored_and_no_time_is_negative() -> None:
    """guidellm 216: a mean TTFT of -1.7e12 ms."""
    store = folded(play(), play(event(TOKEN), event(DONE)))
    assert store.by_segment["baseline", "ttft"].total == 1
    assert (store.by_segment["baseline", "ttft"].rank_ns(1) or 0) > 0
    assert store.total("baseline", 0).n == 2, "a failure counts as over the limit, it does not vanish"


def test_reaching_the_cap_is_counted_as_load_that_was_not_sent() -> None:
    """guidellm 487, 1041."""
    folder = Folder("0", [], [], 0)
    folder.lost(5 * MS)
    folder.fold_all()
    batch = folder.take(0, 0, {})
    assert (batch.counts[0, "*"].scheduled, batch.counts[0, "*"].fired) == (1, 0)


def test_several_events_in_one_read_are_kept_marked_and_a_zero_gap_counts() -> None:
    """aiperf PR 368."""
    record = play(event(TOKEN) * 3 + event(DONE))
    assert list(record.event_ns) == [120 * MS] * 3
    assert list(record.event_low_ns) == [110 * MS] * 3
    store = folded(record, objectives=("gap.p99 <= 5ms",))
    gap = store.total("baseline", 0)
    assert (gap.n, gap.fail_low, gap.fail_high) == (2, 0, 2), "0 to 10 ms against 5: possible, not certain"
    assert store.counts[0, "*"].interval_events == 3
    exact = folded(play(event(TOKEN) * 3 + event(DONE), one_segment=True), objectives=("gap.p99 <= 5ms",))
    assert (exact.total("baseline", 0).fail_high, exact.by_segment["baseline", "gap"].total) == (0, 2)


def test_some_of_the_tokens_and_a_clean_close_is_truncated() -> None:
    """inference-perf 655."""
    assert play(*[event(TOKEN)] * 10).outcome is Outcome.TRUNCATED


def test_the_time_of_the_body_is_in_the_latency() -> None:
    """locust 2443, 1406."""
    record = play(*[event(TOKEN)] * 50, event(DONE), sched_ms=100)
    assert record.e2e_ns == 520 * MS


def test_no_percentile_is_above_the_maximum_and_a_short_window_is_not_empty() -> None:
    """locust 331, 777, 2322."""
    histogram = Histogram()
    for value_ms in (7, 8, 9.5):
        histogram.add(value_ms * MS)
    assert (histogram.quantile_ns(0.99) or 0) <= 9.5 * MS * 1.005
    assert histogram.quantile_ns(0.99) == histogram.quantile_ns(1.0)
    record = play(event(TOKEN), event(DONE))
    store = folded(record)
    assert store.window("ttft", [0]).total == 1


def test_a_target_that_is_down_leaves_nothing_behind() -> None:
    """locust 816, k6 4670: memory grew with every failure."""
    folder = Folder("0", [parse_objective("error_rate <= 1%")], [], 0)
    sizes = set()
    for second in range(20):
        for number in range(100):
            at_ns = second * 1_000 * MS + number * MS
            record = RequestRecord(second * 100 + number, at_ns, fire_ns=at_ns, end_ns=at_ns + MS)
            record.outcome, record.error = Outcome.CONNECT, f"refused, the {second}.{number}th time"
            folder.fired(record)
        folder.fold_all((second + 1) * 1_000 * MS)
        assert folder.unfolded == 0
        sizes.add(len(str(folder.take(0, 0, {}).to_wire())) // 100)
    assert len(sizes) <= 2


@pytest.mark.parametrize("size", [1, 3, 700, 1024, 5000])
def test_an_event_is_seen_when_it_came_and_not_when_a_buffer_is_full(size: int) -> None:
    """locust HEAD: iter_lines waits for 1,024 bytes."""
    first = play(event(TOKEN.replace(b"word", b"x" * size)), event(TOKEN), event(DONE), sched_ms=100)
    assert first.ttft_ns == 20 * MS


def test_wall_times_of_two_zones_are_one_time_line() -> None:
    """dynamo PR 3289: a recovery of 25,230 s instead of 30 s."""
    head = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    rows = parse_trace(f"{head}2024-05-10 02:00:00+02:00,1,1\n2024-05-10 00:00:30+00:00,1,1\n", "t")
    assert [row.at_s for row in rows] == [0, 30]


def test_nothing_is_owed_that_was_not_asked_for() -> None:
    """A model may stop early: only ``ignore_eos`` makes a short answer incomplete."""
    assert Request(b"").asked_tokens == 0
