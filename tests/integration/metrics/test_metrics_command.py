"""The options of the command: refused before anything is touched, or served until the end."""

from __future__ import annotations

import socket

import pytest
from conftest_run import Place, scenario

pytestmark = pytest.mark.slow


def test_a_port_in_use_exits_2_before_anything_is_touched(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        run = place.run(scenario(), "--metrics-port", str(taken.getsockname()[1]))
    assert run.process.returncode == 2
    assert "in use" in run.text
    assert "--metrics-port" in run.text
    assert not (place.top / "runs").exists()


def test_dashboards_are_written_once_and_not_overwritten(place: Place) -> None:
    done = place.chaosflow("dashboards", "--out", "m")
    assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in (place.top / "m").iterdir()) == [
        "chaosflow-dashboard.json",
        "chaosflow-rules.yml",
        "prometheus.yml",
    ]
    (place.top / "m" / "prometheus.yml").write_text("mine")
    again = place.chaosflow("dashboards", "--out", "m")
    assert again.returncode == 2
    assert "is there already" in again.stderr
    assert (place.top / "m" / "prometheus.yml").read_text() == "mine"
