"""Plays the orchestrator's side of chaosflow.core.loadlink for one load process."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import psutil

from chaosflow.core.loadlink import API_KEY_VARIABLE
from chaosflow.core.slots import CellBatch, CellStore, Count


def order_for(
    folder: Path, url: str, plan: dict[str, Any], objectives: list[str] | None = None
) -> dict[str, Any]:
    return {
        "run_id": "r",
        "url": url,
        "model": "tiny",
        "plan": {"prompt_tokens": 8, "output_tokens": 4, **plan},
        "seed": 5,
        "objectives": objectives or ["ttft.p95 <= 1s", "error_rate <= 1%"],
        "fault_names": ["pause"],
        "records_dir": str(folder),
    }


class LoadRun:
    """A load process, its messages, and its cells merged. Leaves no process behind."""

    def __init__(
        self,
        folder: Path,
        url: str,
        plan: dict[str, Any],
        objectives: list[str] | None = None,
        *,
        within: Sequence[str] = (),
    ) -> None:
        """``within``: a command that runs another one somewhere (``ip netns exec NAME``)."""
        self._within = list(within)
        self.order = order_for(folder, url, plan, objectives)
        self.folder = folder
        (folder / "order.json").write_text(json.dumps(self.order))
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / "s"))
        self._listener.listen()
        self._listener.settimeout(30)
        self.messages: list[dict[str, Any]] = []
        self.batches: list[CellBatch] = []
        self.store = CellStore()
        self.t0_ns = 0

    def __enter__(self) -> Self:
        files = [str(self.folder / "order.json"), str(self.folder / "s")]
        self.process = subprocess.Popen(
            [*self._within, sys.executable, "-m", "chaosflow.load", *files],
            env=os.environ | {API_KEY_VARIABLE: "canary-key"},
        )
        self.link, _ = self._listener.accept()
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.wait_for("ready")
        self.workers = psutil.Process(self.process.pid).children()
        return self

    def __exit__(self, *_: object) -> None:
        self.hang_up()
        for process in self.workers:
            if process.is_running():
                process.kill()
        self.process.kill()
        self.process.wait()
        self._reader.join()
        self._listener.close()

    def hang_up(self) -> None:
        with suppress(OSError):
            self.link.shutdown(socket.SHUT_RDWR)
        self.link.close()

    def _read(self) -> None:
        with self.link.makefile("rb") as lines, suppress(OSError):
            for line in lines:
                self._take(json.loads(line))

    def _take(self, message: dict[str, Any]) -> None:
        with self._news:
            if message["type"] == "cells":
                batch = CellBatch.from_wire(message["batch"])
                self.batches.append(batch)
                self.store.merge(batch)
            else:
                self.messages.append(message)
            self._news.notify_all()

    def wait_for(self, kind: str, timeout_s: float = 30.0) -> dict[str, Any]:
        with self._news:
            assert self._news.wait_for(lambda: self.of_kind(kind), timeout_s), f"no {kind}: {self.messages}"
            return self.of_kind(kind)[0]

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [m for m in self.messages if m["type"] == kind]

    def send(self, kind: str, **fields: Any) -> None:
        self.link.sendall(json.dumps({"type": kind, **fields}).encode() + b"\n")

    def start(self) -> None:
        self.t0_ns = time.monotonic_ns() + 20_000_000
        self.send("mark", mark=["baseline_begin", self.t0_ns, "", True])
        self.send("start", t0_ns=self.t0_ns)

    def run_for(self, seconds: float) -> None:
        end_s = time.monotonic() + seconds
        while (left_s := end_s - time.monotonic()) > 0:
            self.send("horizon", until_ns=time.monotonic_ns())
            time.sleep(min(0.25, left_s))

    def stop(self, drain_s: float = 2.0) -> int:
        """Stop, wait for the end; the exit code."""
        self.send("stop", at_ns=time.monotonic_ns(), drain_s=drain_s)
        self.wait_for("bye")
        return self.process.wait(10)

    def total(self, segment: str = "*") -> Count:
        total = Count()
        for (_, name), count in self.store.counts.items():
            if name == segment:
                total.add(count)
        return total
