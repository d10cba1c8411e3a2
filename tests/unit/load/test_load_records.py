"""Raw records, and a disk that takes no more."""

from __future__ import annotations

from pathlib import Path

from chaosflow.core.sample import Outcome, RequestRecord
from chaosflow.load.records import RecordWriter, read_records


def record(index: int = 0) -> RequestRecord:
    made = RequestRecord(index, 2_000_000, fire_ns=2_010_000, sent_ns=2_020_000, end_ns=9_000_000)
    made.event_ns.extend([5_000_000, 6_000_000])
    made.event_low_ns.extend([4_000_000, 6_000_000])
    return made


def test_a_record_comes_back_relative_to_the_start_in_us(tmp_path: Path) -> None:
    writer = RecordWriter(tmp_path / "r.jsonl.gz", t0_ns=1_000_000)
    writer.add(record())
    writer.drain()
    failed = RequestRecord(1, 3_000_000, end_ns=4_000_000, outcome=Outcome.CONNECT, error="refused")
    writer.add(failed)
    writer.drain(final=True)
    first, second = read_records(tmp_path / "r.jsonl.gz")
    assert (first["sched_us"], first["end_us"], first["event_us"]) == (1000, 8000, [4000, 5000])
    assert first["event_low_us"] == [3000, 5000]
    assert (second["outcome"], second["sent_us"], second["error"]) == ("connect", None, "refused")
    assert "event_low_us" not in second


def test_a_full_disk_stops_the_records_and_not_the_load() -> None:
    writer = RecordWriter(Path("/dev/full"), t0_ns=0)
    for index in range(3000):
        writer.add(record(index))
    writer.drain()
    writer.drain(final=True)
    assert "No space left" in writer.problem
    writer.add(record())  # harmless
    writer.drain(final=True)


def test_a_missing_folder_is_a_problem_and_no_crash(tmp_path: Path) -> None:
    writer = RecordWriter(tmp_path / "gone" / "r.jsonl.gz", t0_ns=0)
    writer.add(record())
    writer.drain(final=True)
    assert "No such file" in writer.problem
