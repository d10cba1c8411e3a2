"""The options that serve live metrics: shared by run, sweep and nightly."""

from __future__ import annotations

import inspect
import os
import signal
import threading
import time
import urllib.request

import pytest

from chaosflow.cli import history, running, sweeping
from chaosflow.cli.metering import LOOPBACK, Metering, metering
from chaosflow.core.errors import UsageError
from chaosflow.orchestrator.metrics.live import LiveMetrics

OPTIONS = {"metrics_port", "metrics_address", "metrics_linger"}


@pytest.mark.parametrize("command", [running.run, sweeping.sweep, history.nightly])
def test_every_command_that_runs_scenarios_has_them(command: object) -> None:
    assert callable(command)
    assert set(inspect.signature(command).parameters) >= OPTIONS


@pytest.mark.parametrize(
    ("port", "address", "linger", "cause"),
    [
        (None, LOOPBACK, "5s", "nothing serves them"),
        (None, "0.0.0.0", "0s", "nothing serves them"),
        (0, LOOPBACK, "5 parsecs", "not a duration"),
    ],
)
def test_options_that_cannot_work_are_refused(
    port: int | None, address: str, linger: str, cause: str
) -> None:
    with pytest.raises(UsageError, match=cause), metering(port, address, linger):
        pytest.fail("it began")


def test_without_a_port_nothing_listens_and_nothing_lingers(capsys: pytest.CaptureFixture[str]) -> None:
    with metering(None, LOOPBACK, "0s") as made:
        made.linger()
    assert not made.serving
    assert capsys.readouterr().out == ""


def test_the_address_is_told_and_served(capsys: pytest.CaptureFixture[str]) -> None:
    with metering(0, LOOPBACK, "0s") as made:
        made.live.end("pass", {})
        url = capsys.readouterr().out.split()[1]
        with urllib.request.urlopen(url, timeout=5) as answer:
            assert 'chaosflow_runs_total{state="pass"} 1.0' in answer.read().decode()


def test_ctrl_c_ends_the_lingering_only() -> None:
    before = signal.getsignal(signal.SIGINT)
    timer = threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT))
    began = time.monotonic()
    try:
        timer.start()
        Metering(LiveMetrics(), serving=True, linger_s=60).linger()
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - began < 20
