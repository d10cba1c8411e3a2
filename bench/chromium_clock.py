"""Opens a page in a real Chromium and asks it when it was ready, over its debugging pipe (no virtual time)."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

_OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--host-resolver-rules=MAP * ~NOTFOUND", "--remote-debugging-pipe", "--window-size=1280,1600"),
)


class _Pipe:
    """NUL-ended JSON messages of the DevTools protocol on the browser's descriptors 3 and 4."""

    def __init__(self, write_fd: int, read_fd: int) -> None:
        self._out, self._in, self._number = write_fd, os.fdopen(read_fd, "rb"), 0

    def call(self, method: str, tab: str | None = None, **params: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        os.write(self._out, json.dumps(message | ({"sessionId": tab} if tab else {})).encode() + b"\0")
        while True:
            answer = json.loads(self._read())
            if answer.get("id") == self._number:
                found: dict[str, Any] = answer.get("result", {})
                return found

    def _read(self) -> bytes:
        data = bytearray()
        while (byte := self._in.read(1)) != b"\0":
            if not byte:
                raise EOFError("chromium is gone")
            data += byte
        return bytes(data)


def value_when_set(
    chromium: str, page: Path, expression: str, within_s: float = 30.0
) -> tuple[str, float] | None:
    """(a JavaScript expression's value in the page as soon as it is not empty, CPU seconds of the page's process by then).

    None when it stayed empty.
    """
    ours_read, theirs_write = os.pipe()
    theirs_read, ours_write = os.pipe()
    os.set_inheritable(theirs_read, True)
    os.set_inheritable(theirs_write, True)
    shell = f'exec "$0" "$@" 3<&{theirs_read} 4>&{theirs_write}'
    with tempfile.TemporaryDirectory() as profile:
        command = ["bash", "-c", shell, chromium, *_OPTIONS, f"--user-data-dir={profile}"]
        browser = subprocess.Popen(command, pass_fds=(theirs_read, theirs_write), stderr=subprocess.DEVNULL)
        os.close(theirs_read)
        os.close(theirs_write)
        pipe = _Pipe(ours_write, ours_read)
        try:
            return _ask(pipe, page, expression, time.monotonic() + within_s)
        finally:
            pipe.call("Browser.close")
            browser.wait(10)
            os.close(ours_write)


def _ask(pipe: _Pipe, page: Path, expression: str, give_up_s: float) -> tuple[str, float] | None:
    target = pipe.call("Target.createTarget", url=page.as_uri())["targetId"]
    tab = pipe.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    pipe.call("Performance.enable", tab)
    while time.monotonic() < give_up_s:
        answer = pipe.call("Runtime.evaluate", tab, expression=f"String({expression} ?? '')")
        if value := answer.get("result", {}).get("value"):
            metrics = pipe.call("Performance.getMetrics", tab)["metrics"]
            return str(value), next(m["value"] for m in metrics if m["name"] == "ProcessTime")
        time.sleep(0.2)  # asking more often would hold it up
    return None
