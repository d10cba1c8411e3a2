"""Live metrics: the options that every command which runs scenarios shares, and the shipped dashboards."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from chaosflow.cli.shared import say
from chaosflow.core.errors import UsageError
from chaosflow.core.units import format_duration, parse_duration_s
from chaosflow.orchestrator.metrics.live import LiveMetrics
from chaosflow.reports.monitoring import write_monitoring

MetricsPortOption = Annotated[
    int | None,
    typer.Option(
        min=0, max=65535, metavar="PORT", help="Serve live Prometheus metrics there. 0: any free port."
    ),
]
MetricsAddressOption = Annotated[str, typer.Option(metavar="IP", help="Address to serve metrics on.")]
MetricsLingerOption = Annotated[
    str, typer.Option(metavar="DURATION", help="Go on serving the final state that long, e.g. 15s.")
]
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Metering:
    """Where the metrics go."""

    live: LiveMetrics
    serving: bool
    linger_s: float

    def linger(self) -> None:
        """Leave the final state to be scraped; Ctrl-C ends that early, and changes no exit code."""
        if self.serving and self.linger_s > 0:
            say(f"metrics: the final state stays for {format_duration(self.linger_s)}")
            over = threading.Event()
            signal.signal(signal.SIGINT, lambda *_: over.set())
            over.wait(self.linger_s)


@contextlib.contextmanager
def metering(port: int | None, address: str, linger: str) -> Iterator[Metering]:
    """Serve metrics, where a port is given, until the block ends.

    Raises UsageError, before anything is touched, where the port cannot be had.
    """
    try:
        linger_s = parse_duration_s(linger)
    except ValueError as e:
        raise UsageError("--metrics-linger", str(e)) from None
    live = LiveMetrics()
    if port is None:
        if linger_s or address != LOOPBACK:
            raise UsageError("metrics", "nothing serves them", "give --metrics-port, or leave the others out")
        yield Metering(live, False, 0.0)
        return
    from chaosflow.orchestrator.metrics.server import MetricsServer  # a tenth of a second to import

    with MetricsServer(live, port, address) as server:
        say(f"metrics: {server.url}")
        yield Metering(live, True, linger_s)


def dashboards(
    out: Annotated[Path, typer.Option("--out", help="Folder to write to; made where missing.")] = Path(
        "chaosflow-monitoring"
    ),
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that are there.")] = False,
) -> None:
    """Write the Grafana dashboard, the Prometheus rules and an example configuration."""
    for path in write_monitoring(out, overwrite=force):
        say(f"wrote {path}")
