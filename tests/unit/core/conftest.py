"""Small fault atoms that touch nothing, and a loader bound to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import Field, model_validator

from chaosflow.core.errors import ScenarioError
from chaosflow.core.fault import Capability, Effect, FaultAtom, Undo
from chaosflow.core.host import Host
from chaosflow.core.loader import Loaded, load_scenario
from chaosflow.core.registry import Registry


class Inert(FaultAtom):
    def check(self, host: Host) -> Capability:
        return Capability.yes()

    async def plan(self, host: Host, name: str) -> Undo:
        return Undo(kind=self.kind, name=name, run_id=host.run_id)

    async def inject(self, undo: Undo) -> None:
        return None

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        return Effect(False, "inert")

    @staticmethod
    async def revert(undo: Undo) -> None:
        return None


class Delay(Inert):
    kind: ClassVar[str] = "net.delay"
    composes: ClassVar[bool] = True
    delay_ms: float = Field(gt=0)
    jitter_ms: float = Field(0, ge=0)

    @model_validator(mode="after")
    def _order(self) -> Delay:
        if self.jitter_ms > self.delay_ms:
            raise ValueError(f"jitter_ms {self.jitter_ms:g} is above delay_ms {self.delay_ms:g}")
        return self


class Clock(Inert):
    kind: ClassVar[str] = "gpu.clock"
    aliases: ClassVar[tuple[str, ...]] = ("cuda_device",)
    device_id: int = 0
    target_freq_mhz: int = Field(gt=0)


class Kill(Inert):
    kind: ClassVar[str] = "process.kill"
    reversible: ClassVar[bool] = False
    signal: str = "KILL"


class Pause(Inert):
    kind: ClassVar[str] = "process.pause"

    def resource(self, host: Host) -> frozenset[str]:
        return frozenset({"process:target"})


@pytest.fixture
def atoms() -> Registry[FaultAtom]:
    registry: Registry[FaultAtom] = Registry(FaultAtom, "kind", "fault")
    for kind in (Delay, Clock, Kill, Pause):
        registry._register(kind)
    return registry


MINIMAL = """\
target: {engine: {}}
load: {arrival: {kind: poisson, rate_per_s: 10}}
sla: {objectives: ["ttft.p95 <= 200ms"]}
"""

Load = Callable[..., Loaded]


@pytest.fixture
def minimal() -> str:
    return MINIMAL


@pytest.fixture
def load(tmp_path: Path, atoms: Registry[FaultAtom]) -> Load:
    """``load(text, overrides, env)`` -> Loaded; the file is called s.yaml."""

    def go(
        text: str | bytes = MINIMAL,
        overrides: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        known: Mapping[str, Sequence[str]] | None = None,
    ) -> Loaded:
        file = tmp_path / "s.yaml"
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        return load_scenario(
            file,
            atoms=atoms,
            shipped=tmp_path / "shipped",
            overrides=overrides,
            env=env or {},
            known_values=known,
        )

    return go


@pytest.fixture
def problems(load: Load, tmp_path: Path) -> Callable[..., list[str]]:
    """The problems of a scenario as lines, without the folder; fails when there is none."""

    def go(*args: object, **kwargs: object) -> list[str]:
        with pytest.raises(ScenarioError) as caught:
            load(*args, **kwargs)
        return [str(p).replace(f"{tmp_path}/", "") for p in caught.value.problems]

    return go
