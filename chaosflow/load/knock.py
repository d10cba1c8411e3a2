"""Is there a run's master at that address? Asked before Locust, which would wait for it for minutes without a word."""

from __future__ import annotations

import socket
import time

from chaosflow.core.errors import UsageError

_AGAIN_S = 0.5
_GREETING_S = 5.0
_ZMTP = b"\xff"
"""The first byte that a ZeroMQ socket says, unasked (RFC 23/ZMTP 3.0)."""


def knock(host: str, port: int, patience_s: float) -> None:
    """Wait until something that speaks Locust's protocol listens there. Joins nothing. Raises UsageError."""
    where = f"--master {host}:{port}"
    deadline_s = time.monotonic() + patience_s
    while True:
        try:
            with socket.create_connection((host, port), _GREETING_S) as master:
                said = _first_byte(master)
        except (socket.gaierror, UnicodeError) as e:
            raise UsageError(
                where, f"no such host ({getattr(e, 'strerror', None) or e})", "look at its name"
            ) from e
        except OSError as e:
            if time.monotonic() > deadline_s:
                remedy = (
                    "start the run, with load.remote_workers and load.listen; or look at address and port"
                )
                raise UsageError(
                    where, f"nobody there for {patience_s:g} s ({e.strerror or e})", remedy
                ) from e
            time.sleep(_AGAIN_S)
            continue
        if said == _ZMTP:
            return
        raise UsageError(where, "what listens there is no run's load", "give the port of load.listen")


def _first_byte(master: socket.socket) -> bytes:
    try:
        return master.recv(1)
    except OSError:
        return b""
