"""Files on disk: whole or absent, each on its own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from sample_result import sample

from chaosflow.core.errors import ChaosflowError, UsageError
from chaosflow.reports.writer import load_result, write_all


@pytest.mark.slow
def test_round_trip(tmp_path: Path) -> None:
    result = sample()
    written = write_all(result, tmp_path / "runs" / "r1")
    assert written == {"result": "result.json", "report": "report.html", "junit": "junit.xml"}
    assert sorted(p.name for p in (tmp_path / "runs" / "r1").iterdir()) == sorted(written.values())
    loaded = load_result(tmp_path / "runs" / "r1")
    assert loaded.artifacts == result.artifacts | written
    assert loaded.model_copy(update={"artifacts": result.artifacts}) == result
    assert load_result(tmp_path / "runs" / "r1" / "result.json") == loaded


@pytest.mark.slow
def test_one_failing_writer_does_not_stop_the_others(tmp_path: Path) -> None:
    (tmp_path / "report.html").mkdir()  # cannot be replaced by a file
    (tmp_path / "report.html" / "x").touch()
    with pytest.raises(ChaosflowError, match=r"report\.html") as caught:
        write_all(sample(), tmp_path)
    assert "junit.xml" in caught.value.remedy
    assert load_result(tmp_path).name == "demo"
    assert (tmp_path / "junit.xml").stat().st_size > 1000
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")], "no temporary file is left"


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small tmpfs: needs root")
def test_full_disk_keeps_the_result_and_names_what_is_missing(tmp_path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(tmp_path)], check=True)
    try:
        with pytest.raises(ChaosflowError, match=r"report\.html: No space left on device"):
            write_all(sample(), tmp_path)
        assert load_result(tmp_path).state == "fail"
        assert sorted(p.name for p in tmp_path.iterdir()) == ["junit.xml", "result.json"]
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_missing_result_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no result here"):
        load_result(tmp_path / "nope")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"schema_version": 99}', "schema version 99"),
        ("[]", "schema version None"),
        ("{", "cannot be read"),
        ('{"schema_version": 1}', "run_id"),
    ],
)
def test_unreadable_result_says_why(tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "result.json").write_text(content)
    with pytest.raises(UsageError, match=says):
        load_result(tmp_path)


def test_result_json_is_plain_json(tmp_path: Path) -> None:
    from chaosflow.reports.writer import result_json

    raw = json.loads(result_json(sample()), parse_constant=lambda c: pytest.fail(f"{c} is not JSON"))
    assert raw["schema_version"] == 1
    assert raw["series"]["ttft_p50_ms"][0] is None
