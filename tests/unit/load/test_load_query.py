"""Questions to the raw records."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from chaosflow.core.errors import UsageError
from chaosflow.core.sample import Outcome, RequestRecord
from chaosflow.load.query import FIELDS, run_query, summary, table
from chaosflow.load.records import RecordWriter

MS = 1_000_000


def record(index: int, sched_ms: int, events_ms: list[int], outcome: Outcome = Outcome.OK) -> RequestRecord:
    made = RequestRecord(index, sched_ms * MS, fire_ns=sched_ms * MS + MS, sent_ns=sched_ms * MS + 2 * MS)
    made.event_ns.extend(t * MS for t in events_ms)
    made.event_low_ns.extend(t * MS for t in events_ms)
    made.tokens, made.outcome = len(events_ms), outcome
    made.end_ns = (events_ms[-1] if events_ms else sched_ms) * MS + 5 * MS
    made.error = "" if outcome is Outcome.OK else "connection refused"
    return made


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two workers; warm-up of 2 s, baseline to 10 s, a fault from 4 s of the baseline on."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "records").mkdir()
    shares = [
        [record(0, 1000, [1100, 1110]), record(2, 4000, [4050, 4150, 4450])],
        [record(1, 3000, [], Outcome.CONNECT), record(3, 7000, [7300])],
    ]
    for worker, share in enumerate(shares):
        writer = RecordWriter(folder / "records" / f"records-{worker}.jsonl.gz", 0)
        for one in share:
            writer.add(one)
        writer.drain(final=True)
    spans = [
        ("warmup", "warmup", -2, 0),
        ("baseline", "baseline", 0, 4),
        ("pause.inject", "edge", 2.3, 2.5),
        ("pause", "fault", 4, 8),
    ]
    segments = [{"name": n, "kind": k, "begin_s": b, "end_s": e} for n, k, b, e in spans]
    (folder / "result.json").write_text(json.dumps({"segments": segments}))
    return folder


def js(rows: list[dict[str, Any]]) -> list[int]:
    return sorted(row["j"] for row in rows)


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ([], [0, 1, 2, 3]),
        (["ttft > 60ms"], [0, 3]),
        (["ttft > 60ms and outcome = ok", "j < 2"], [0]),
        (["outcome != ok"], [1]),
        (["outcome == connect"], [1]),
        (["ttft = none"], [1]),
        (["max_gap >= 0.3s"], [2]),
        (["max_gap>=0.3"], [2]),
        (["error ~ REFUSED"], [1]),
        (["segment = pause"], [3]),
        (["segment = baseline"], [1]),
        (["segment = pause.inject"], [2]),
        (["segment != pause"], [0, 1, 2]),
        (["worker = 1"], [1, 3]),
        (["sched < 3500ms"], [0, 1]),
    ],
)
def test_conditions(run: Path, where: list[str], found: list[int]) -> None:
    assert js(run_query(run, where)) == found


def test_values_are_as_the_glossary_says(run: Path) -> None:
    (row,) = run_query(run, ["j = 2"])
    assert set(row) == set(FIELDS)
    assert (row["ttft"], row["e2e"], row["max_gap"], row["lag"]) == (0.05, 0.455, 0.3, 0.001)
    assert row["tpot"] == pytest.approx(0.2)


def test_what_never_came_goes_last_whatever_the_order(run: Path) -> None:
    assert [row["j"] for row in run_query(run, sort="-ttft")] == [3, 0, 2, 1]
    assert [row["j"] for row in run_query(run, sort="ttft", limit=2)] == [2, 0]


def test_summary_and_table(run: Path) -> None:
    """locust 331: a P99 above the maximum."""
    rows = run_query(run)
    found = summary(rows)
    assert found["outcomes"] == {"ok": 3, "connect": 1}
    assert found["ttft"] == {"p50": 0.1, "p95": 0.3, "p99": 0.3}
    assert summary([])["ttft"] == {"p50": None, "p95": None, "p99": None}
    lines = table(rows, ["j", "ttft", "outcome", "error"]).splitlines()
    assert lines[0].split() == ["j", "ttft", "outcome", "error"]
    assert "1       -  connect  connection refused" in table(rows, ["j", "ttft", "outcome", "error"])


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("tft > 1s", "did you mean 'ttft'"),
        ("ttft >", "cannot be read"),
        ("ttft > fast", "not a duration|could not convert"),
        ("outcome > ok", "is text"),
        ("outcome = failed", "outcome is one of ok, connect, .*; write .outcome != ok."),
        ("outcome = trunkated", "did you mean 'truncated'"),
        ("tokens = many", "could not convert"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(run: Path, where: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        run_query(run, [where])


def test_a_run_without_records_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no records"):
        run_query(tmp_path)


@pytest.mark.parametrize("line", [b"no json", b'{"a": 1}', b"[1]", b'{"j": 1, "event_us": 3}'])
def test_a_file_of_something_else_is_named(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "records-0.jsonl.gz").write_bytes(gzip.compress(line + b"\n"))
    with pytest.raises(UsageError, match=r"records-0.jsonl.gz: holds a line that is no record"):
        run_query(tmp_path)


def test_a_file_of_another_name_is_no_workers(tmp_path: Path) -> None:
    (tmp_path / "records-x.jsonl.gz").write_bytes(gzip.compress(b"{}\n"))
    with pytest.raises(UsageError, match="holds no records"):
        run_query(tmp_path)
