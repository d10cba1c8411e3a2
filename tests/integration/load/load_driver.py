"""The real client in a process of its own, so that gevent stays out of pytest (load_fetch_driver.py)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

Row = dict[str, Any]


class Driver:
    """The client in its own process, one for all tests."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", str(Path(__file__).with_name("load_fetch_driver.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def fetch(
        self,
        url: str,
        deadline_s: float = 5.0,
        connect: Any = None,
        plan: dict[str, Any] | None = None,
        **job: Any,
    ) -> list[Row]:
        order = {
            "run_id": "r",
            "url": url,
            "connect": connect,
            "model": "tiny",
            "plan": {
                "arrival": {"kind": "constant", "rate_per_s": 1},
                "prompt_tokens": 5,
                "deadline": deadline_s,
                **(plan or {}),
            },
            "seed": 1,
            "objectives": [],
            "fault_names": [],
            "records_dir": "",
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"order": order, **job}) + "\n")
        self._process.stdin.flush()
        rows: list[Row] = json.loads(self._process.stdout.readline())
        return rows

    def close(self) -> None:
        self._process.communicate(timeout=10)
