"""Kill the target whenever it is back: ``kill_again HOW SIGNAL ALIVE_S MAX_KILLS`` (0 = no end).

HOW is JSON: ``{"control": SOCKET}`` of the included engine, or the selector of a user's server.
"""

from __future__ import annotations

import json
import signal
import socket
import struct
import sys
import time
from typing import Any

from chaosflow.core.errors import CapabilityError
from chaosflow.core.host import ProcessRef
from chaosflow.faults._stress.report import report
from chaosflow.linux import finding, procs

_LOOK_S = 0.05
_END_S = 5.0


def main(how: dict[str, Any], signum: int, alive_s: float, max_kills: int) -> None:
    """The first kill is at once. Refuses a tree that holds ChaosFlow itself."""
    kills = returns = 0
    away_s, gone_at = 0.0, 0.0
    while not max_kills or kills < max_kills:
        if not (roots := _find(how)):
            time.sleep(_LOOK_S)
            continue
        if kills:
            returns, away_s = returns + 1, time.monotonic() - gone_at
            report(kills=kills, returns=returns, away_s=away_s)
            time.sleep(alive_s)
        if procs.ourselves() & {ref.pid for ref in procs.tree(roots)}:
            report(
                refused=f"{procs.describe(roots)} is an ancestor of ChaosFlow", kills=kills, returns=returns
            )
            break
        if _kill(roots, signum):
            kills, gone_at = kills + 1, time.monotonic()
            report(kills=kills, returns=returns, away_s=away_s)
    while True:
        signal.pause()  # still the fault's helper, which its end ends


def _find(how: dict[str, Any]) -> tuple[ProcessRef, ...]:
    """The target's roots now, once it answers; empty while it is away."""
    if "control" in how:
        return _server_of(how["control"])
    ((selector, value),) = how.items()
    try:
        return finding.find_by(selector, value)
    except CapabilityError:
        return ()


def _server_of(path: str) -> tuple[ProcessRef, ...]:
    """Who listens on a Unix socket (SO_PEERCRED, unix(7))."""
    with socket.socket(socket.AF_UNIX) as s:
        try:
            s.connect(path)
            credentials = s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        except OSError:
            return ()
    ref = ProcessRef.of(struct.unpack("3i", credentials)[0])
    return (ref,) if ref is not None and ref.alive() else ()


def _kill(roots: tuple[ProcessRef, ...], signum: int) -> bool:
    """Signal the whole trees, again for children born meanwhile; whether they ended in time."""
    deadline, victims = time.monotonic() + _END_S, procs.tree(roots)
    sent: set[ProcessRef] = set()
    while left := [ref for ref in victims if ref.alive()]:
        for ref in procs.tree(left):
            if ref not in sent:
                procs.send(ref, signum)
                sent.add(ref)
                victims += [ref] if ref not in victims else []
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


if __name__ == "__main__":
    number = signal.Signals["SIG" + sys.argv[2]]
    main(json.loads(sys.argv[1]), number, float(sys.argv[3]), int(sys.argv[4]))
