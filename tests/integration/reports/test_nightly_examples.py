"""The CI examples: each is well-formed, and the command that it holds is carried out as it stands."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from chaosflow.orchestrator.suite import load_suite

CI = Path(__file__).parents[3] / "examples" / "ci"
SCENARIO = """\
name: tiny
target: {engine: {backend: sim}}
load: {arrival: {kind: constant, rate_per_s: 20}, prompt_tokens: 16, output_tokens: 4}
phases: {warmup: 0s, baseline: 1s, recovery: 0s}
probes: []
sla: {objectives: ["error_rate <= 90%"], window: 5s}
"""


def _yaml(name: str) -> dict[str, Any]:
    """As every value's text: YAML 1.1 reads the key ``on`` as true."""
    return dict(yaml.load((CI / name).read_text(), Loader=yaml.BaseLoader))


def cron_command() -> str:
    (line,) = [
        text for text in (CI / "crontab").read_text().splitlines() if text and not text.startswith("#")
    ]
    fields = line.split(maxsplit=5)
    assert all(re.fullmatch(r"[\d*/,-]+", field) for field in fields[:5])
    assert "%" not in fields[5], "cron reads % as the end of the line"
    return fields[5]


def systemd_command() -> str:
    return re.findall(r"^ExecStart=(.+)$", (CI / "chaosflow-nightly.service").read_text(), re.MULTILINE)[0]


def github_command() -> str:
    steps = _yaml("github-nightly.yml")["jobs"]["nightly"]["steps"]
    (found,) = [step["run"] for step in steps if "chaosflow nightly" in step.get("run", "")]
    return str(found)


def gitlab_command() -> str:
    return "\n".join(_yaml("gitlab-ci.yml")["resilience-nightly"]["script"])


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder whose path leaves room for the sockets of a run."""
    with tempfile.TemporaryDirectory(prefix="cf") as folder:
        yield Path(folder)


def test_the_example_suite_is_valid() -> None:
    assert load_suite(CI / "suite.yaml").names == ("quickstart",)


def test_the_pipelines_keep_history_and_reports() -> None:
    workflow = _yaml("github-nightly.yml")
    assert workflow["on"]["schedule"][0]["cron"] == "15 2 * * *"
    steps = {step.get("uses", "").partition("@")[0]: step for step in workflow["jobs"]["nightly"]["steps"]}
    assert {"actions/checkout", "actions/cache/restore"} <= set(steps)
    for name in ("actions/cache/save", "actions/upload-artifact"):
        assert steps[name]["if"] == "always()", "a night that failed was in no history of the nights after it"
    kept, found = (steps[f"actions/cache/{what}"]["with"] for what in ("save", "restore"))
    assert kept["path"] == found["path"] == "runs/history.sqlite"
    assert kept["key"].startswith(found["restore-keys"])
    job = _yaml("gitlab-ci.yml")["resilience-nightly"]
    assert job["cache"]["paths"] == ["runs/history.sqlite"]
    assert (job["cache"]["when"], job["artifacts"]["when"]) == ("always", "always")
    assert job["artifacts"]["reports"]["junit"].endswith("junit.xml")


@pytest.mark.slow
def test_every_command_runs_as_it_stands(tmp_path: Path, short: Path) -> None:
    """Those of systemd and GitLab are that of GitHub word for word, and not run again."""
    assert gitlab_command() == github_command()
    assert systemd_command() == f"/opt/resilience/.venv/bin/{github_command()}"
    commands = {"cron": cron_command(), "github": github_command()}
    running = {name: _start(tmp_path / name, command, short / name) for name, command in commands.items()}
    ended = {name: (process.wait(110), tmp_path / name) for name, process in running.items()}
    for name, (code, place) in ended.items():
        log = "".join(p.read_text() for p in place.glob("*.log"))
        assert code == 0, f"{name}: {log}"
        assert len(list(place.glob("runs/*-nightly-*/nightly.html"))) == 1, name
        assert (place / "runs" / "history.sqlite").stat().st_size > 0
        assert not list(place.glob("runs/history.sqlite-*")), "what is cached is one file"
    assert "nightly suite.yaml" in (tmp_path / "github" / "summary.md").read_text()


def _start(place: Path, command: str, state: Path) -> subprocess.Popen[bytes]:
    """The command in a folder of its own, which stands for /opt/resilience."""
    bin_folder = place / ".venv" / "bin"
    bin_folder.mkdir(parents=True)
    (bin_folder / "chaosflow").write_text(
        f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m chaosflow "$@"\n'
    )
    (bin_folder / "chaosflow").chmod(0o755)
    (place / "tiny.yaml").write_text(SCENARIO)
    (place / "suite.yaml").write_text("scenarios:\n  - run: tiny.yaml\n")
    env = {
        **os.environ,
        "CHAOSFLOW_STATE_DIR": str(state),
        "PATH": f"{bin_folder}:{os.environ['PATH']}",
    }
    env["GITHUB_STEP_SUMMARY"] = str(place / "summary.md")
    with (place / "out.log").open("wb") as log:
        return subprocess.Popen(
            ["bash", "-e", "-o", "pipefail", "-c", command.replace("/opt/resilience", str(place))],
            cwd=place, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze on PATH")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "chaosflow").symlink_to("/bin/true")
    for name in ("chaosflow-nightly.service", "chaosflow-nightly.timer"):
        (tmp_path / name).write_text((CI / name).read_text().replace("/opt/resilience", str(tmp_path)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *(str(p) for p in sorted(tmp_path.glob("chaosflow-*")))],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    ours = [line for line in done.stderr.splitlines() if "chaosflow-nightly" in line]
    assert ours == [], done.stderr
