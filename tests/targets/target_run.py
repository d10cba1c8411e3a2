"""One run of the command against a real server: the scenario, the run as a subprocess, what it left."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from target_process import TargetProcess

from chaosflow.core.host import state
from chaosflow.core.result import FaultResult, RunResult, SegmentResult
from chaosflow.linux import cgroup
from chaosflow.load.records import read_records

COMMAND = Path(sys.executable).with_name("chaosflow")


def scenario_for(
    target: TargetProcess,
    *,
    load: Mapping[str, Any],
    phases: Mapping[str, str],
    faults: Sequence[Mapping[str, Any]],
    objectives: Sequence[str],
) -> dict[str, Any]:
    """A scenario against a server that somebody else started, as a user would write it."""
    return {
        "version": 1,
        "name": f"{target.name}-under-faults",
        "target": {"url": target.url, "process": {"listen_port": target.port}},
        "load": dict(load),
        "phases": dict(phases),
        "faults": [dict(fault) for fault in faults],
        "probes": ["host"],
        "sla": {"window": "5s", "objectives": list(objectives)},
    }


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run that has ended; ``result`` is read from the result.json it left."""

    exit_code: int
    output: str
    folder: Path
    result: RunResult

    def fault(self, name: str) -> FaultResult:
        return next(fault for fault in self.result.faults if fault.name == name)

    def segment(self, name: str) -> SegmentResult:
        return next(segment for segment in self.result.segments if segment.name == name)

    def states(self) -> dict[str, dict[str, str]]:
        """Objective -> segment -> verdict."""
        return {o.text: {s.segment: s.state for s in o.segments} for o in self.result.objectives}

    def records(self) -> Iterator[dict[str, Any]]:
        """The raw record of every request (chaosflow.load.records.to_json)."""
        for path in sorted(self.folder.rglob("records-*.jsonl.gz")):
            yield from read_records(path)

    def explain(self) -> str:
        """For a failed assertion: why the run ended as it did, and what it printed."""
        return f"exit {self.exit_code}: {self.result.reason}\n{self.states()}\n{self.output[-6000:]}"


def chaosflow_run(scenario: Mapping[str, Any], folder: Path, timeout_s: float) -> FinishedRun:
    """``chaosflow run`` on this scenario, to its end. Does not judge the exit code.

    Fails when nothing was left to read, or when it took longer than ``timeout_s``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "scenario.yaml"
    path.write_text(yaml.safe_dump(dict(scenario), sort_keys=False))
    return finished_run([str(path)], folder / "runs", timeout_s)


def finished_run(
    arguments: Sequence[str], runs: Path, timeout_s: float, env: Mapping[str, str] | None = None
) -> FinishedRun:
    """``chaosflow run ARGUMENTS``, its runs in the empty folder ``runs``; else as ``chaosflow_run``."""
    command = [str(COMMAND), "run", *arguments, "--plain", "--runs-dir", str(runs)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "COLUMNS": "200", **(env or {})},
    ) as process:  # fmt: skip
        try:
            output, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.terminate()  # not a kill: it must still undo its faults
            output, _ = process.communicate(timeout=30)
            raise AssertionError(f"still running after {timeout_s:g} s:\n{output[-6000:]}") from None
    left = sorted(runs.glob("*/result.json"))
    assert len(left) == 1, f"exit {process.returncode}, {len(left)} result.json:\n{output[-6000:]}"
    result = RunResult.model_validate_json(left[0].read_text())
    return FinishedRun(process.returncode, output, left[0].parent, result)


def assert_faults_worked(run: FinishedRun, names: Sequence[str]) -> None:
    """Every fault was injected, seen in effect, taken back, and seen gone."""
    assert [fault.name for fault in run.result.faults] == list(names), run.explain()
    for fault in run.result.faults:
        assert not fault.error, f"{fault.name}: {fault.error}\n{run.explain()}"
        assert fault.confirmed, f"{fault.name}: not confirmed\n{run.explain()}"
        assert fault.evidence, fault.name
        assert fault.reverted, f"{fault.name}: not reverted\n{run.explain()}"
        assert not fault.simulated, fault.name


def assert_every_stream_whole(run: FinishedRun, output_tokens: int, *, at_least: int) -> None:
    """Every request ended well, and brought as many tokens by the server's own count as were asked for."""
    records = list(run.records())
    assert len(records) >= at_least, run.explain()
    for record in records:
        assert record["outcome"] in ("ok", "cancelled"), record
        if record["outcome"] == "ok":
            assert record["status"] == 200, record
            assert record["finish_reason"] == "length", record
            assert record["tokens_by_usage"], record
            assert record["tokens"] == output_tokens, record
            assert 1 <= len(record["event_us"]) <= output_tokens, record
    for segment in run.result.segments:
        assert segment.failed == 0, run.explain()
        assert segment.complete == segment.resolved, run.explain()


def assert_left_alone(target: TargetProcess) -> None:
    """The server runs, answers, and has no limit on it."""
    assert target.healthy(), target.log.read_text(errors="replace")[-2000:]
    assert state(target.pid) in ("S", "R", "D")
    if target.cpu_cgroup:
        quota = cgroup.read_cpu_quota(target.cpu_cgroup)
        assert quota is not None
        assert quota.quota_us == -1
