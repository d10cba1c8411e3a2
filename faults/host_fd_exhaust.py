"""``host.fd_exhaust``: the target may open no more files and sockets (RLIMIT_NOFILE by prlimit(2))."""

from __future__ import annotations

import os
import resource
from typing import Any, ClassVar

from pydantic import Field

from chaosflow.core.errors import CapabilityError
from chaosflow.core.fault import Capability, Effect, FaultAtom, Undo
from chaosflow.core.host import Host, ProcessRef
from chaosflow.faults._target import Scope, check_processes, from_json, in_scope, require_processes, to_json
from chaosflow.linux import procs


class HostFdExhaust(FaultAtom):
    """Lower the target's limit of open files to what it has open: ``accept`` and ``open`` fail with EMFILE.

    Closes nothing. Only the soft limit is lowered, so that putting it back needs no privilege.
    """

    kind: ClassVar[str] = "host.fd_exhaust"
    acts_on: ClassVar[str] = "the soft RLIMIT_NOFILE of the target's processes, by prlimit(2)"
    requires: ClassVar[str] = "the same user as the target, or root with CAP_SYS_RESOURCE"
    cannot: ClassVar[str] = (
        "Closes nothing: connections that are open stay; a number that the target closes it may use again. A "
        "process that raises its own limit again is not confirmed"
    )
    undone_by: ClassVar[str] = "prlimit --pid PID --nofile=PRIOR: for each process of the target"

    headroom: int = Field(0, ge=0, le=1 << 20)
    """Descriptors that each process may still open."""
    scope: Scope = "tree"
    """``tree``: the target's processes and all their descendants; ``pid``: the roots alone."""

    def resource(self, host: Host) -> frozenset[str]:
        return frozenset({"target:nofile"})

    def check(self, host: Host) -> Capability:
        if not (capability := check_processes(host)).ok:
            return capability
        try:
            for ref in in_scope(host.target.processes, self.scope):
                _prlimit(ref)  # who may not set it may not read it either (prlimit(2))
        except CapabilityError as e:
            return Capability.no(f"{e.thing}: {e.cause}", e.remedy)
        return Capability.yes("prlimit RLIMIT_NOFILE")

    async def plan(self, host: Host, name: str) -> Undo:
        roots = require_processes(host, f"{self.kind} {name}")
        processes = []
        for ref in in_scope(roots, self.scope):
            if (now := _prlimit(ref)) is not None:
                limit = min(now[0], _limit_that_leaves(self.headroom, _open_numbers(ref.pid)))
                processes.append({"ref": ref.to_json(), "soft": now[0], "limit": limit})
        state = {"roots": to_json(roots), "scope": self.scope, "processes": processes}
        manual = "; ".join(
            f"prlimit --pid {item['ref']['pid']} --nofile={item['soft']}:"  # type: ignore[index]
            for item in processes
        )
        return Undo(kind=self.kind, name=name, run_id=host.run_id, state=state, manual=manual)

    async def inject(self, undo: Undo) -> None:
        for ref, item in _known(undo):
            _set_soft(ref, item["limit"])

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        known = _known(undo)
        limited = [(ref, item) for ref, item in known if (_prlimit(ref) or (-1,))[0] == item["limit"]]
        unlike = [item for _, item in limited if item["limit"] != item["soft"]]
        free = sum(_free_below(item["limit"], _open_numbers(ref.pid)) for ref, item in limited)
        text = f"{len(limited)} of {len(known)} processes limited, {free} descriptors left in all"
        return Effect(bool(unlike) and len(limited) == len(known), text)

    @staticmethod
    async def revert(undo: Undo) -> None:
        """Also for children that inherited the limit while it was in force."""
        known = dict(_known(undo))
        ours = {item["limit"] for item in undo.state["processes"]}
        prior = max((item["soft"] for item in undo.state["processes"]), default=0)
        roots = dict.fromkeys([*from_json(undo.state["roots"]), *known])
        for ref in in_scope(roots, undo.state["scope"]):
            item, now = known.get(ref), _prlimit(ref)
            if item is not None:
                _set_soft(ref, item["soft"])
            elif now is not None and now[0] in ours:
                _set_soft(ref, min(prior, now[1]))


def _known(undo: Undo) -> list[tuple[ProcessRef, dict[str, Any]]]:
    pairs = [(ProcessRef.from_json(item["ref"]), item) for item in undo.state["processes"]]
    return [(ref, item) for ref, item in pairs if ref.alive()]


def _set_soft(ref: ProcessRef, soft: int) -> None:
    now = _prlimit(ref)
    if now is not None and ref.alive() and now[0] != soft:
        _prlimit(ref, (soft, now[1]))


def _prlimit(ref: ProcessRef, *limits: tuple[int, int]) -> tuple[int, int] | None:
    """Soft and hard limit, before ``limits`` were set where they are given; None when the process is gone."""
    try:
        return resource.prlimit(ref.pid, resource.RLIMIT_NOFILE, *limits)
    except ProcessLookupError:
        return None
    except PermissionError as e:
        raise CapabilityError(
            f"limits of {procs.describe([ref])}",
            "may be neither read nor set",
            "run as its user, or as root with CAP_SYS_RESOURCE",
        ) from e


def _open_numbers(pid: int) -> frozenset[int]:
    try:
        return frozenset(int(name) for name in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return frozenset()


def _limit_that_leaves(headroom: int, used: frozenset[int]) -> int:
    """The limit below which exactly ``headroom`` numbers are unused: the limit is of numbers, not of files."""
    limit = 0
    while True:
        if limit not in used:
            if headroom == 0:
                return limit
            headroom -= 1
        limit += 1


def _free_below(limit: int, used: frozenset[int]) -> int:
    return limit - sum(number < limit for number in used)
