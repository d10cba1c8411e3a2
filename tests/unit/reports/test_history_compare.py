"""Two runs compared: what is worse, what only looks so, and what cannot be compared at all."""

from __future__ import annotations

import gzip
import json
import math
from io import StringIO
from pathlib import Path

import numpy as np
import orjson
import pytest
from rich.console import Console
from sample_result import sample

from chaosflow.core.errors import UsageError
from chaosflow.core.histogram import Histogram
from chaosflow.core.slots import CellBatch, Count
from chaosflow.reports.history.compare import Comparison, _ratio_interval, compare, overall, usual_differences
from chaosflow.reports.history.entry import entry_of
from chaosflow.reports.history.metrics import Value
from chaosflow.reports.history.samples import CELLS_FILE, SegmentSamples, load_samples
from chaosflow.reports.history.tables import compare_table


def run(folder: Path, *, seed: int, shift: float = 1.0, tail: float = 1.0, seconds: int = 40, failed: float = 0.0, burst: float = 0.0) -> dict[str, SegmentSamples]:  # fmt: skip
    """A run's cells of one segment: 20 requests a second around 100 ms; ``tail``: factor of the slowest tenth."""
    rng = np.random.default_rng(seed)
    folder.mkdir()
    with gzip.open(folder / CELLS_FILE, "wb") as file:
        for second in range(seconds):
            batch = CellBatch("w0", second + 1, second * 1_000_000_000)
            slow = math.exp(burst * rng.standard_normal())
            times = 1e8 * shift * slow * rng.lognormal(0, 0.3, 20)
            times[-2:] *= tail
            bad = int(rng.binomial(20, failed))
            histogram = Histogram()
            for value in times[bad:]:
                histogram.add(value)
            batch.by_segment["baseline", "e2e"] = histogram
            tokens = int(rng.poisson(400))
            batch.counts[second, "baseline"] = Count(resolved=20, failed=bad, tokens=tokens)
            batch.counts[second, "*"] = Count(resolved=20, failed=bad, tokens=tokens)
            file.write(orjson.dumps(batch.to_wire()) + b"\n")
    return load_samples(folder)


def compared(
    a: dict[str, SegmentSamples], b: dict[str, SegmentSamples], **options: object
) -> dict[str, Comparison]:
    found = compare(a, b, ["baseline"], 0.1, **options)  # type: ignore[arg-type]
    return {c.metric: c for c in found if c.before is not None}


def test_equal_runs_show_no_change(tmp_path: Path) -> None:
    found = compared(run(tmp_path / "a", seed=1), run(tmp_path / "b", seed=2))
    assert {c.state for c in found.values()} == {"none"}
    assert overall(list(found.values())) == "none"
    assert {"e2e_p50_ms", "e2e_p95_ms", "error_share", "tokens_per_s"} == set(found)


def test_a_shift_is_worse_and_the_other_way_better(tmp_path: Path) -> None:
    a, b = run(tmp_path / "a", seed=1), run(tmp_path / "b", seed=2, shift=1.3)
    there, back = compared(a, b)["e2e_p50_ms"], compared(b, a)["e2e_p50_ms"]
    assert (there.state, back.state) == ("worse", "better")
    assert there.low is not None
    assert there.high is not None
    assert there.low < 1.3 < there.high
    assert there.p == pytest.approx(back.p)


def test_a_heavier_tail_alone_is_seen(tmp_path: Path) -> None:
    found = compared(run(tmp_path / "a", seed=1), run(tmp_path / "b", seed=2, tail=2.0))
    assert found["e2e_p50_ms"].state == "none"
    assert found["e2e_p95_ms"].state == "worse"


@pytest.mark.slow
def test_a_significant_change_below_the_least_effect_is_none(tmp_path: Path) -> None:
    found = compared(
        run(tmp_path / "a", seed=1, seconds=300), run(tmp_path / "b", seed=2, seconds=300, shift=1.05)
    )
    assert found["e2e_p50_ms"].p < 0.001
    assert found["e2e_p50_ms"].state == "none"


def test_failures_are_bad_times_not_good_ones(tmp_path: Path) -> None:
    """locust 1363: fast errors improve the statistics of the rest."""
    a, b = run(tmp_path / "a", seed=1), run(tmp_path / "b", seed=2, failed=0.3, shift=0.98)
    found = compared(a, b)
    assert found["error_share"].state == "worse"
    assert found["e2e_p50_ms"].state == "worse"


@pytest.mark.slow
def test_correlated_requests_give_no_false_alarms(tmp_path: Path) -> None:
    """Every second slow or fast as a whole: taken for independent, one pair in three would differ."""
    pairs = [
        (
            run(tmp_path / f"a{i}", seed=2 * i, burst=0.4, seconds=30),
            run(tmp_path / f"b{i}", seed=2 * i + 1, burst=0.4, seconds=30),
        )
        for i in range(25)
    ]
    found = [compared(a, b) for a, b in pairs]
    alarms = sum(any(c.state in ("worse", "better") for c in f.values()) for f in found)
    assert alarms <= 3
    assert np.median([f["e2e_p50_ms"].effect for f in found]) > 5


def test_few_samples_are_undecided_and_none_at_all_too(tmp_path: Path) -> None:
    a, b = (
        run(tmp_path / "a", seed=1, seconds=6, burst=0.5),
        run(tmp_path / "b", seed=3, seconds=6, burst=0.5, shift=1.5),
    )
    assert overall(list(compared(a, b).values())) in ("undecided", "worse")
    assert compared(a, b)["e2e_p50_ms"].state == "undecided"
    short = run(tmp_path / "c", seed=1, seconds=2)
    found = compare(a, short, ["baseline"], 0.1)
    assert {c.state for c in found if c.metric == "e2e_p50_ms"} == {"few"}
    assert overall(found) == "few", "that neither failed is no word on how fast they were"
    assert overall([]) == "few"


def test_what_could_not_be_tested_is_counted_and_says_why(tmp_path: Path) -> None:
    """keptn 2277: twelve of fifteen tests without samples read as twelve without a change."""
    a, short = run(tmp_path / "a", seed=1), run(tmp_path / "c", seed=1, seconds=3)
    found = {c.metric: c for c in compare(a, short, ["baseline"], 0.1)}
    assert found["e2e_p50_ms"].sentence == "too short (40 and 3 s with samples; 5 are needed)"
    assert found["ttft_p50_ms"].sentence == "too few samples (0 and 0; 20 are needed)"
    assert found["tokens_per_s"].sentence == "too short (38 and 1 whole s with tokens; 5 are needed)"
    assert found["error_share"].state == "none"
    console = Console(file=StringIO(), width=100)
    console.print(compare_table(list(found.values()), everything=False))
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert "1 of 5 tests show no change that matters, 4 could not be made" in " ".join(said.split())


def test_a_difference_that_runs_of_the_series_show_anyway_is_none(tmp_path: Path) -> None:
    a, b = run(tmp_path / "a", seed=1), run(tmp_path / "b", seed=2, shift=1.3)
    spread = [80.0, 100, 120, 90, 130, 110]
    entries = [entry_of(sample()) for _ in spread]
    for entry, value in zip(entries, spread, strict=True):
        entry.values["baseline", "e2e_p50_ms"] = Value(value, 800)
    usual = usual_differences(entries)
    assert usual["baseline", "e2e_p50_ms"] > 40
    assert compared(a, b, usual=usual)["e2e_p50_ms"].state == "none"
    assert usual_differences(entries[:4]) == {}


def test_cells_cut_short_by_a_kill_count_as_far_as_they_go(tmp_path: Path) -> None:
    run(tmp_path / "a", seed=1)
    whole = (tmp_path / "a" / CELLS_FILE).read_bytes()
    (tmp_path / "a" / CELLS_FILE).write_bytes(whole[: len(whole) // 2])
    found = load_samples(tmp_path / "a")["baseline"]
    assert 5 < len(found.resolved) < 40


def test_a_folder_without_cells_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no cells\.jsonl\.gz"):
        load_samples(tmp_path)


def test_sentences_hold_the_numbers() -> None:
    found = Comparison("jitter", "e2e_p95_ms", "worse", 100, 150, 1.2, 1.7, 0.001)
    assert found.sentence == "100 ms -> 150 ms, +50 % (95 %: +20 % to +70 %)"
    assert json.dumps(found.sentence)


def test_times_of_zero_are_no_division_by_zero() -> None:
    """Gaps of events that came in one read are 0: a warning of numpy's stood above the table."""
    histogram = Histogram()
    histogram.add(0)
    histogram.add(10**8)
    halves = np.random.default_rng(1).integers(1, 9, (40, 2))
    low, high = _ratio_interval(sorted(histogram.counts), halves, halves, 0.5)
    assert 0 <= low <= high < math.inf
