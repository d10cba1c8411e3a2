"""What a run's folder holds for a report that is made of it later."""

from __future__ import annotations

import gzip
from pathlib import Path

from chaosflow.core.segments import Mark, MarkKind
from chaosflow.core.slots import CellBatch
from chaosflow.core.worst import BadRequest
from chaosflow.orchestrator.leftovers import read_batches, read_facts, read_probes
from chaosflow.orchestrator.rundir import Redactor, RunDir
from chaosflow.orchestrator.series import COLUMNS

_SECRET = "sk-very-secret"


def _batch(seq: int) -> CellBatch:
    batch = CellBatch("0", seq, seq)
    batch.worst = [
        BadRequest(1, 0, "baseline", True, "http", 401, f"key {_SECRET} refused", 0, 0, None, 9, None, [])
    ]
    return batch


def _filled(tmp_path: Path) -> Path:
    run = RunDir.create(tmp_path, "r", Redactor([_SECRET]), lambda text: None)
    run.fact("run", {"run_id": "r", "command": ["chaosflow", "run", _SECRET]})
    run.fact("mark", Mark(MarkKind.BASELINE_BEGIN, 7).to_wire())
    run.fact("fault", {"name": "jitter", "evidence": "old"})
    run.fact("fault", {"name": "jitter", "evidence": "new"})
    run.fact("limits", {"0": (0.2, 0.1)})
    run.event(1.0, "note", "hello")
    for seq in (1, 2, 3):
        run.cells(_batch(seq))
        run.series_row(tuple(float(seq) for _ in COLUMNS))
        run.reading(float(seq), "host.load, 1min", 0.5)
    run.close()
    return tmp_path / "r"


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    folder = _filled(tmp_path)
    facts = read_facts(folder)
    assert facts.run["run_id"] == "r"
    assert facts.marks == [Mark(MarkKind.BASELINE_BEGIN, 7)]
    assert facts.faults["jitter"]["evidence"] == "new", "the last that was known of it"
    assert facts.limits == {0: (0.2, 0.1)}
    assert [e.text for e in facts.events] == ["hello"]
    assert [b.seq for b in read_batches(folder)] == [1, 2, 3]
    assert list(read_probes(folder)) == [(float(i), "host.load, 1min", 0.5) for i in (1, 2, 3)]
    lines = gzip.decompress((folder / "series.csv.gz").read_bytes()).decode().splitlines()
    assert lines[0].startswith("t_s,ttft_p50_ms")
    assert len(lines) == 4


def test_no_secret_reaches_the_folder(tmp_path: Path) -> None:
    """The error text of a server may repeat the key it refused."""
    folder = _filled(tmp_path)
    for path in folder.iterdir():
        if path.is_file():
            data = path.read_bytes()
            text = gzip.decompress(data) if path.suffix == ".gz" else data
            assert _SECRET.encode() not in text, path.name


def test_files_may_end_anywhere(tmp_path: Path) -> None:
    folder = _filled(tmp_path)
    cells = (folder / "cells.jsonl.gz").read_bytes()
    facts = (folder / "facts.jsonl").read_bytes()
    for share in (0.0, 0.3, 0.6, 0.95):
        (folder / "cells.jsonl.gz").write_bytes(cells[: int(len(cells) * share)])
        (folder / "facts.jsonl").write_bytes(facts[: int(len(facts) * share)])
        assert len(list(read_batches(folder))) <= 3
        read_facts(folder)
    (folder / "cells.jsonl.gz").write_bytes(cells[:40] + b"\0" * 40)
    assert len(list(read_batches(folder))) <= 3
    for name in ("cells.jsonl.gz", "facts.jsonl", "events.jsonl", "probes.csv.gz"):
        (folder / name).unlink()
    assert list(read_batches(folder)) == []
    assert list(read_probes(folder)) == []
    assert read_facts(folder).run == {}
