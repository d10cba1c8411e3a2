"""The commands that touch nothing: what they print and what they exit with."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CHAOSFLOW = [sys.executable, "-m", "chaosflow"]


def chaosflow(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CHAOSFLOW, *arguments], capture_output=True, text=True, timeout=60, cwd=cwd, check=False
    )


@pytest.mark.slow
def test_a_shipped_scenario_validates_by_its_bare_name() -> None:
    done = chaosflow("validate", "quickstart", "--strict")
    assert done.returncode == 0, done.stderr
    assert "valid" in done.stdout


@pytest.mark.slow
def test_all_problems_are_printed_at_once_and_exit_2(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(
        "name: x\ntarget: {engine: {}}\nload: {arrival: {kind: poison, rate_per_s: 4}, promt_tokens: 3}\nsla: {objectives: [ttft.p99 < 3]}\n"
    )
    done = chaosflow("validate", str(path))
    assert done.returncode == 2
    assert "bad.yaml:3:" in done.stderr
    assert "prompt_tokens" in done.stderr
    assert "bad.yaml:4:" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_an_unknown_command_option_or_scenario_exits_2() -> None:
    assert chaosflow("rnu").returncode == 2
    assert chaosflow("run", "--nope").returncode == 2
    done = chaosflow("run", "quickstrat")
    assert done.returncode == 2
    assert "quickstart" in done.stderr, "keptn-like silence is no answer: a near name is named"


@pytest.mark.slow
def test_init_writes_a_valid_scenario_and_never_overwrites(tmp_path: Path) -> None:
    assert chaosflow("init", cwd=tmp_path).returncode == 0
    assert chaosflow("validate", "scenario.yaml", cwd=tmp_path).returncode == 0
    again = chaosflow("init", cwd=tmp_path)
    assert again.returncode == 2
    assert "is there already" in again.stderr


@pytest.mark.slow
def test_the_schema_is_json_schema() -> None:
    import jsonschema

    schema = json.loads(chaosflow("schema").stdout)
    jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["faults", "probes", "scenarios"])
def test_lists_show_what_there_is(what: str) -> None:
    done = chaosflow("list", what)
    assert done.returncode == 0, done.stderr
    expected = {"faults": "process.pause", "probes": "engine", "scenarios": "quickstart"}[what]
    assert expected in done.stdout


@pytest.mark.slow
def test_list_alone_says_what_it_could_list() -> None:
    done = chaosflow("list")
    assert done.returncode == 2
    assert "one of: faults, probes, scenarios" in done.stderr


@pytest.mark.slow
def test_a_dry_run_shows_timeline_and_undo_and_makes_no_folder(tmp_path: Path) -> None:
    done = chaosflow("run", "quickstart", "--dry-run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for word in ("baseline", "process.pause", "recovery", "kill -CONT"):
        assert word in done.stdout
    # as a whole line, to be copied: the toxic is named like the fault
    assert any(
        "freeze" not in line and line.endswith("-X DELETE http://proxy/proxies/target/toxics/jitter")
        for line in done.stdout.splitlines()
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: network faults")
def test_a_dry_run_names_the_very_commands_for_a_server_that_runs(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    with subprocess.Popen(["sleep", "1000"]) as server:
        path.write_text(
            f"target: {{url: 'http://127.0.0.1:9/v1', process: {{pid: {server.pid}}}}}\n"
            "load: {arrival: {kind: constant, rate_per_s: 1}}\nphases: {recovery: 1s}\nfaults:\n"
            "  - {name: freeze, type: process.pause, duration: 1s}\n"
            "  - {name: cut, type: net.partition, after: freeze, duration: 1s}\n"
            "  - {name: burn, type: host.cpu_stress, after: cut, duration: 1s, params: {workers: 1}}\n"
            "sla: {objectives: ['error_rate <= 1%']}\n"
        )
        try:
            told = chaosflow("run", str(path), "--dry-run").stdout.splitlines()
            assert Path(f"/proc/{server.pid}/stat").read_text().split()[2] == "S"
        finally:
            server.kill()
    undone = {line.split()[0]: line for line in told if ", undone by: " in line}
    assert undone["freeze,"].endswith(f"undone by: kill -CONT {server.pid}")
    assert undone["cut,"].endswith("undone by: nft delete table netdev chaosflow-RUN-cut")
    assert "'^CHAOSFLOW_FAULT=RUN/burn$'" in undone["burn,"]


@pytest.mark.slow
def test_a_fault_that_cannot_work_stops_everything_before_it_begins(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(
        "target: {url: 'http://127.0.0.1:9/v1'}\nload: {arrival: {kind: constant, rate_per_s: 1}}\n"
        "faults: [{name: freeze, type: process.pause, duration: 1s}]\nsla: {objectives: ['error_rate <= 1%']}\n"
    )
    done = chaosflow("run", str(path), cwd=tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "freeze" in done.stderr
    assert "process" in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_a_dry_run_tells_what_acts_and_not_every_default(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(
        "target: {engine: {backend: sim}}\nload: {arrival: {kind: constant, rate_per_s: 1}}\n"
        "faults: [{name: line, type: net.netem, duration: 1s, params: {delay_ms: 40, loss_percent: 0}}]\n"
        "sla: {objectives: ['error_rate <= 1%']}\n"
    )
    told = " ".join(chaosflow("run", str(path), "--dry-run").stdout.split())
    assert "delay_ms=40" in told
    assert "loss_percent=0," in told, "asked for, so it is told"
    assert "exclude_ports" not in told
    assert "undone by: " in told


@pytest.mark.slow
def test_help_and_version_work_without_side_effects() -> None:
    told = chaosflow("--help").stdout
    assert "run" in told
    assert "..." not in told.partition("Commands:")[2], "every command's line fits 80 columns"
    assert chaosflow("--version").stdout.startswith("chaosflow 0.")


@pytest.mark.slow
def test_a_tool_sees_the_virtual_gpu_behind_the_real_binding(tmp_path: Path) -> None:
    code = "import pynvml as p; p.nvmlInit(); print(p.nvmlDeviceGetName(p.nvmlDeviceGetHandleByIndex(0)))"
    done = chaosflow("vgpu", str(tmp_path / "gpu"), "--gpu", "h200", "--", sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr
    assert "H200" in done.stdout


@pytest.mark.slow
def test_records_of_a_folder_without_any_are_named(tmp_path: Path) -> None:
    done = chaosflow("records", str(tmp_path))
    assert done.returncode == 2
    assert "holds no records" in done.stderr


def records_run(folder: Path) -> Path:
    """A run of three requests, as a load worker writes it."""
    (folder / "records").mkdir(parents=True)
    lines = [
        {
            "j": j, "sched_us": j * 1000, "fire_us": j * 1000, "end_us": 9000, "event_us": [5000, 8000], "tokens": 2,
            "tokens_by_usage": True, "status": 200, "outcome": "ok", "finish_reason": "stop", "error": "", "user_stamps": 0,
        }
        for j in range(3)
    ]  # fmt: skip
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "records" / "records-0.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "last"),
    [
        (["--limit", "2"], "2 of 3 requests; --limit shows more"),
        ([], "3 requests"),
        (["--where", "ttft > 9s"], "no such request"),
    ],
)
def test_records_say_how_many_there_are(tmp_path: Path, options: list[str], last: str) -> None:
    done = chaosflow("records", str(records_run(tmp_path / "run")), *options)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == last
