"""How ``chaosflow nightly`` ends where its own report cannot be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaosflow.cli.history import _written
from chaosflow.core.errors import ExitCode
from chaosflow.reports.history.report import NightlyReport


def report(code: ExitCode) -> NightlyReport:
    return NightlyReport(
        session="s", suite="suite.yaml", started_utc="2026-11-28T02:00:00Z", ended_utc="2026-11-28T02:01:00Z",
        state="pass", exit_code=int(code), reason="", min_effect=0.1, alpha=0.01,
    )  # fmt: skip


def test_what_cannot_be_written_is_an_error_but_never_hides_a_fault_in_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert _written(report(ExitCode.PASS), tmp_path / "n") is ExitCode.PASS
    assert _written(report(ExitCode.FAIL), blocked / "n") is ExitCode.ERROR
    assert _written(report(ExitCode.NOT_UNDONE), blocked / "n") is ExitCode.NOT_UNDONE
    said = " ".join(capsys.readouterr().err.split())
    assert "could not write nightly.json: Not a directory" in said
    assert "--no-run" in said
