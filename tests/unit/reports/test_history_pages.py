"""The nightly's page, summary, JUnit and JSON: complete, small, offline, and safe with any text."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from datetime import date, datetime, timedelta
from io import StringIO
from pathlib import Path
from random import Random

import pytest
from rich.console import Console

from chaosflow.core.errors import ChaosflowError
from chaosflow.reports.history.entry import Entry
from chaosflow.reports.history.judge import Policy
from chaosflow.reports.history.metrics import Key, Value
from chaosflow.reports.history.night import Night, Tonight, conclude
from chaosflow.reports.history.nightly_page import render_nightly
from chaosflow.reports.history.nightly_text import junit, markdown, write_nightly
from chaosflow.reports.history.report import Annotation, NightlyReport
from chaosflow.reports.history.tables import history_table, nightly_table
from chaosflow.reports.history.trend import trend

EVIL = "</script><img src=x onerror=alert(1)> | `x` \x00"
FIRST = datetime(2026, 9, 1, 2)


def entries(
    name: str, nights: int, levels: dict[Key, float], step: int = 10_000, **fields: str
) -> list[Entry]:
    """``nights`` runs; every metric is 25 % worse from night ``step`` on."""
    random = Random(name)
    return [
        Entry(
            run_id=f"{name}-{i}", name=name, state="pass", exit_code=0, reason="holds",
            started_utc=(FIRST + timedelta(days=i)).strftime("%Y-%m-%dT%H:%M:%SZ"), wall_s=60, session=f"n{i}",
            fingerprint={"cpu": "A", **fields},
            values={k: Value(v * (1 + 0.04 * random.gauss(0, 1)) * (1.25 if i >= step else 1), 500) for k, v in levels.items()},
        )
        for i in range(nights)
    ]  # fmt: skip


LEVELS = {("baseline", "ttft_p95_ms"): 80.0, ("jitter", "ttft_p95_ms"): 140.0}


def night(tmp_path: Path, **earlier: list[Entry]) -> Night:
    note = Annotation(date=date(2026, 9, 20), text=EVIL)
    return Night(
        session="20261128-020000-nightly-ab12", suite="ci.yaml", started_utc="2026-11-28T02:00:00Z",
        policy=Policy(annotations=(note,)), earlier=dict(earlier), environment={"cpu": EVIL},
    )  # fmt: skip


def regression(tmp_path: Path) -> NightlyReport:
    found = night(tmp_path, chat=entries("chat", 60, LEVELS, step=50), code=entries("code", 5, LEVELS))
    found.notes.append(EVIL)
    return conclude(found)


def test_a_regression_is_exit_1_in_every_output(tmp_path: Path) -> None:
    report = regression(tmp_path)
    assert (report.state, report.exit_code) == ("fail", 1)
    assert re.match(
        r"2 regressions: chat, baseline: TTFT P95 \+2\d %; chat, jitter: TTFT P95 \+2\d %$", report.reason
    ), report.reason
    page, text = render_nightly(report), markdown(report)
    assert "Regression" in page
    assert "## ✗ Regression: nightly ci.yaml" in text
    root = ET.fromstring(junit(report))
    assert (root.get("tests"), root.get("failures"), root.get("skipped")) == ("6", "2", "4")
    assert NightlyReport.model_validate_json(report.model_dump_json()) == report


def test_page_is_offline_and_escapes_everything(tmp_path: Path) -> None:
    page = render_nightly(regression(tmp_path))
    assert not re.search(r"(src|href)\s*=\s*[\"']?https?:", page)
    assert "<img src=x" not in page
    assert "<script" not in page
    assert "default-src 'none'" in page
    text = markdown(regression(tmp_path))
    assert "<img" not in text


@pytest.mark.slow
def test_many_long_series_stay_below_2_mb(tmp_path: Path) -> None:
    levels = {(f"fault-{i}", metric): 100.0 for i in range(20) for metric in ("ttft_p95_ms", "e2e_p95_ms")}
    report = conclude(night(tmp_path, **{f"s{i}": entries(f"s{i}", 210, levels) for i in range(2)}))
    assert len(report.series) == 80
    assert {len(s.points) for s in report.series} == {200}
    assert len(render_nightly(report).encode()) < 2_000_000


def test_labels_of_an_axis_are_short_enough_for_a_phone(tmp_path: Path) -> None:
    """``12,345 tokens/s`` stood beyond the left edge at 390 pixels."""
    levels = {("baseline", "tokens_per_s"): 12_345.0, ("baseline", "error_share"): 0.1}
    report = conclude(night(tmp_path, chat=entries("chat", 40, levels)))
    shown = {s.metric: trend(s, []).levels[-1].text for s in report.series}
    assert re.fullmatch(r"1\d,\d{3}", shown["tokens_per_s"]), shown
    assert shown["error_share"].endswith(" %")


def test_states_of_tonight_are_the_median_of_its_runs(tmp_path: Path) -> None:
    def tonight(*states: str) -> NightlyReport:
        made = Tonight("chat")
        code = {"pass": 0, "fail": 1, "inconclusive": 3, "invalid": 4}
        for i, state in enumerate(states):
            run = Entry(f"r{i}", "chat", state, code[state], state, "2026-11-28T02:00:00Z", 60, session="now")
            made.add(run, "it was fail" if i else "", f"../r{i}/report.html")
        found = night(tmp_path, chat=[])
        found.tonight = [made]
        return conclude(found)

    assert tonight("pass").exit_code == 0
    assert tonight("fail", "pass", "pass").state == "pass"
    assert tonight("fail", "fail", "pass").exit_code == 1
    assert tonight("fail", "pass").state == "fail"
    assert tonight("invalid").exit_code == 4
    assert "3 runs: fail, pass, pass" in tonight("fail", "pass", "pass").scenarios[0].reason
    assert "r1/report.html" in render_nightly(tonight("fail", "pass", "pass"))


def test_a_new_machine_begins_a_new_series_and_says_so(tmp_path: Path) -> None:
    """pytest-benchmark 276: another CI machine breaks the comparison."""
    found = night(tmp_path, chat=entries("chat", 40, LEVELS))
    (run,) = entries("chat", 1, {k: 3 * v for k, v in LEVELS.items()}, cpu="B")
    made = Tonight("chat")
    made.add(run, "", "")
    found.tonight = [made]
    report = conclude(found)
    assert report.exit_code == 0
    assert report.scenarios[0].new_series == ["cpu: A, then B"]
    assert report.scenarios[0].nights == 1
    for text in (render_nightly(report), markdown(report)):
        assert "cpu: A, then B" in text


def test_runs_by_hand_or_of_a_sweep_are_no_series_that_ends(tmp_path: Path) -> None:
    """The first nightly said that a new series began, because a sweep had run the scenario with other values."""
    by_hand = [replace(e, session="") for e in entries("chat", 3, LEVELS)]
    found = night(tmp_path, chat=by_hand)
    (run,) = entries("chat", 1, LEVELS, cpu="B")
    made = Tonight("chat")
    made.add(run, "", "")
    found.tonight = [made]
    assert conclude(found).scenarios[0].new_series == []


def test_nothing_to_judge_is_no_pass(tmp_path: Path) -> None:
    """keptn 2277: no objective, yet "pass"."""
    assert conclude(night(tmp_path, chat=[])).exit_code == 3
    assert conclude(night(tmp_path, chat=entries("chat", 5, LEVELS))).exit_code == 3
    assert conclude(night(tmp_path, chat=entries("chat", 20, LEVELS))).exit_code == 0


def test_a_refused_scenario_and_a_signal_have_their_codes(tmp_path: Path) -> None:
    found = night(tmp_path, chat=[])
    found.tonight = [Tonight("chat", refused="net.netem: needs root", refused_code=2)]
    assert conclude(found).exit_code == 2
    found.ended_early, found.signal_code = "ended by SIGTERM", 143
    assert conclude(found).exit_code == 143
    found.tonight.append(Tonight("chat2", skipped="the nightly was ended before"))
    found.earlier["chat2"] = []
    assert [s.state for s in conclude(found).scenarios] == ["refused", "not run"]
    found.not_undone = ["tc filter del …"]
    report = conclude(found)
    assert report.exit_code == 5
    assert "tc filter del" in "".join(report.notes)


def test_files_and_the_step_summary_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    (tmp_path / "summary.md").write_text("before\n")
    written = write_nightly(regression(tmp_path), tmp_path / "out")
    assert sorted(p.name for p in written.values()) == [
        "junit.xml",
        "nightly.html",
        "nightly.json",
        "nightly.md",
    ]
    assert (tmp_path / "summary.md").read_text().startswith("before\n## ✗ Regression")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "no" / "such" / "folder.md"))
    with pytest.raises(ChaosflowError, match="GITHUB_STEP_SUMMARY"):
        write_nightly(regression(tmp_path), tmp_path / "out")


def test_terminal_fits_80_columns(tmp_path: Path) -> None:
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(nightly_table(regression(tmp_path)))
    text = console.export_text()
    console.file.close()
    assert "✗ REGRESSION" in text
    assert "chat, jitter: TTFT P95" in text
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80


def test_the_history_keeps_a_runs_id_in_one_line() -> None:
    """An id over two lines cannot be copied into the next command."""
    run_id = "20261129-231113-quickstart-6f08"
    values = {
        (segment, metric): Value(1234.5, 500)
        for segment in ("baseline", "jitter")
        for metric in ("ttft_p95_ms", "e2e_p95_ms", "error_share")
    }
    entry = replace(entries("chat", 1, LEVELS)[0], run_id=run_id, state="inconclusive", values=values)
    console = Console(width=80, record=True, file=StringIO())
    console.print(history_table([entry]))
    lines = console.export_text().splitlines()
    assert any(line.startswith(run_id) for line in lines)
    assert max(map(len, lines)) <= 80
