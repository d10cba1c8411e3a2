"""Answers scrapes: one small HTTP server, in threads of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from types import TracebackType
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, Metric, start_http_server
from prometheus_client.registry import Collector

from chaosflow.core.errors import UsageError
from chaosflow.orchestrator.metrics.families import families
from chaosflow.orchestrator.metrics.live import LiveMetrics


class MetricsServer:
    """Serves ``live`` on every path of one port while the ``with`` block lasts.

    Raises UsageError where the port cannot be had. Port 0 takes any free one: see ``url``.
    Never writes to ``live``, and the run never waits for it.
    """

    def __init__(self, live: LiveMetrics, port: int, address: str = "127.0.0.1") -> None:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Collector(live))
        self._server: WSGIServer
        self._thread: threading.Thread
        try:
            self._server, self._thread = start_http_server(port, address, registry)
        except (OSError, OverflowError) as e:
            cause = getattr(e, "strerror", None) or str(e)
            raise UsageError(
                f"metrics on {address}:{port}", f"cannot listen there ({cause})",
                "choose another --metrics-port (0: any free one) or --metrics-address",
            ) from e  # fmt: skip
        self._address = address

    @property
    def port(self) -> int:
        return self._server.server_port

    @property
    def url(self) -> str:
        host = f"[{self._address}]" if ":" in self._address else self._address
        return f"http://{host}:{self.port}/metrics"

    def __enter__(self) -> MetricsServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=2)


class _Collector(Collector):
    """Turns the last snapshot into metrics when it is asked, but not beside an injection or a revert."""

    def __init__(self, live: LiveMetrics) -> None:
        self._live = live

    def collect(self) -> Iterable[Metric]:
        for _ in range(5):  # where faults follow each other without a pause, a scrape waits no longer
            time.sleep(self._live.busy_s(time.monotonic_ns()))
        return families(self._live.snapshot)
