"""The fault atom: check, plan, inject, verify, revert."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from chaosflow.core.host import Host, boot_id


@dataclass(frozen=True, slots=True)
class Capability:
    """Whether an atom or probe can work here; where not, why, and what would help."""

    ok: bool
    reason: str = ""
    remedy: str = ""
    rung: str = ""
    """Which of several mechanisms will be used, e.g. ``cgroup v1 cpu.cfs_quota_us``."""
    simulated: bool = False
    """The effect is on a virtual device; every report says so."""

    @classmethod
    def yes(cls, rung: str = "", *, simulated: bool = False) -> Capability:
        return cls(True, rung=rung, simulated=simulated)

    @classmethod
    def no(cls, reason: str, remedy: str = "") -> Capability:
        return cls(False, reason, remedy)


@dataclass(frozen=True, slots=True)
class Effect:
    """What was seen when the effect of a fault was looked for, truthy when it is there."""

    active: bool
    evidence: str
    """One clause with the numbers: ``4 of 4 processes stopped``."""
    met: bool = True
    """False: in place, but nothing has come of it yet: no packet and no stream met it. A fault of which
    that is still so just before its revert is not confirmed."""

    def __bool__(self) -> bool:
        return self.active


class Undo(BaseModel):
    """The prior state, as JSON, written to the journal before anything is mutated.

    ``state`` holds all that ``revert`` needs in a fresh process after a kill -9.
    """

    model_config = ConfigDict(extra="forbid")

    kind: str
    name: str
    run_id: str
    state: dict[str, Any] = Field(default_factory=dict)
    manual: str = ""
    """A shell command by which a person undoes the fault without ChaosFlow."""
    boot: str = Field(default_factory=boot_id)
    survives_reboot: bool = False


class FaultAtom(BaseModel, ABC):
    """One kind of fault. The fields of a subclass are its ``params``; units stand in their names.

    Params are validated by pydantic when the scenario is loaded: ``validate`` refuses what cannot be.
    A class is found by scanning ``chaosflow.faults`` and the entry-point group ``chaosflow.faults``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    reversible: ClassVar[bool] = True
    """False: nothing to put back (a kill); recovery counts from the injection."""
    composes: ClassVar[bool] = False
    """Whether two of this kind may act on one ``resource`` at once."""
    needs_proxy: ClassVar[bool] = False
    undone_by: ClassVar[str] = "chaosflow heal"
    """How a person undoes it by hand, for the dry run; the Undo holds the exact command."""
    acts_on: ClassVar[str] = ""
    """For docs/faults.md: what it touches."""
    requires: ClassVar[str] = ""
    """For docs/faults.md: privilege, module, device."""
    cannot: ClassVar[str] = ""
    """For docs/faults.md: what it cannot do or express."""

    def resource(self, host: Host) -> frozenset[str]:
        """What is acted on, e.g. ``{"cgroup:cpu:/engine"}``; overlap is refused unless it composes."""
        return frozenset({self.kind})

    @abstractmethod
    def check(self, host: Host) -> Capability:
        """Whether the fault can work here. Reads only; changes nothing. Works while ``host.planning``."""

    @abstractmethod
    async def plan(self, host: Host, name: str) -> Undo:
        """Read the prior state into an Undo. Changes nothing."""

    @abstractmethod
    async def inject(self, undo: Undo) -> None:
        """Make it so. The Undo is already on disk."""

    @staticmethod
    @abstractmethod
    async def is_active(undo: Undo) -> Effect:
        """Look for the effect itself, not for the success of a call. Changes nothing."""

    @staticmethod
    @abstractmethod
    async def revert(undo: Undo) -> None:
        """Put back the state in ``undo``. Idempotent; works from a fresh process, after a half-done inject."""
