"""``process.crash_loop``: the target is killed again whenever it has come back."""

from __future__ import annotations

import json
from typing import Any, ClassVar, Literal

from pydantic import Field

from chaosflow.core.errors import CapabilityError
from chaosflow.core.fault import Capability, Effect, Undo
from chaosflow.core.host import Host
from chaosflow.faults._stress.atom import StressFault, program
from chaosflow.faults._target import check_processes, still_to_come
from chaosflow.linux.stressor import Worker


class ProcessCrashLoop(StressFault):
    """A target that dies, is restarted, and dies again, as with a bad configuration or a poisoned request.

    Somebody else restarts it: a supervisor, or for the included engine its restart policy, whose
    ``max_restarts`` must cover the loop.
    """

    kind: ClassVar[str] = "process.crash_loop"
    composes: ClassVar[bool] = False
    acts_on: ClassVar[str] = "the target's processes, found again after each restart by a helper process"
    requires: ClassVar[str] = "the same user as the target, or root; a supervisor that restarts it"
    cannot: ClassVar[str] = (
        "Restarts nothing; finds a restarted user's server by `listen_port`, `pid_file`, `name`, `container` or `cgroup`, "
        "not by `pid`"
    )

    signal: Literal["KILL", "TERM", "INT", "HUP", "QUIT", "ABRT", "SEGV"] = "KILL"
    alive_s: float = Field(0.5, ge=0, le=3600)
    """How long each new life may last before the next crash."""
    max_kills: int | None = Field(None, ge=1)
    """Crashes after which it is left alone; without it, until the revert."""

    def resource(self, host: Host) -> frozenset[str]:
        return frozenset({"target:life"})

    def check(self, host: Host) -> Capability:
        if not (capability := check_processes(host)).ok:
            return capability
        if not still_to_come(host) and _how_to_find(host) is None:
            return Capability.no(
                f"a restarted target cannot be found again by {host.target.selector or 'its pid'}",
                "name it by listen_port, pid_file, name, container or cgroup",
            )
        return Capability.yes(f"SIG{self.signal} by pidfd, from a helper process")

    def commands(self, host: Host) -> list[list[str]]:
        if (how := _how_to_find(host)) is None:
            raise CapabilityError(
                self.kind, "a restarted target could not be found again", "name it by its port"
            )
        kills = self.max_kills or 0
        return [program("kill_again", json.dumps(how), self.signal, self.alive_s, kills)]

    @staticmethod
    def judge(wanted: dict[str, Any], workers: list[Worker]) -> Effect:
        seen = workers[0].report
        if refused := seen.get("refused"):
            return Effect(False, f"0 kills: {refused}")
        text = f"killed {seen['kills']} times, back again {seen['returns']} times"
        if seen["returns"]:
            text += f", the last time after {seen['away_s']:.2f} s"
        return Effect(seen["kills"] > 0, text)

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        return ProcessCrashLoop.look(undo)


def _how_to_find(host: Host) -> dict[str, str | int] | None:
    """What still names the target after a restart; None for a pid."""
    target = host.target
    if target.included:
        return {"control": str(target.control)} if target.control else None
    selector, _, value = target.selector.partition(" ")
    if selector not in ("listen_port", "pid_file", "name", "container", "cgroup"):
        return None
    return {selector: int(value) if selector == "listen_port" else value}
