"""What a scenario says, typed. ``loader.py`` makes one of YAML; nothing here reads files."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from chaosflow.core.arrival import ClosedArrival, ConstantArrival, GammaArrival, PoissonArrival, TraceArrival
from chaosflow.core.fields import Model, Seconds
from chaosflow.core.grammar import parse_abort, parse_objective
from chaosflow.core.loadplan import LoadPlan
from chaosflow.core.slo import RESERVED_NAMES, AbortRule, Objective
from chaosflow.core.units import did_you_mean

__all__ = [
    "ClosedArrival",
    "ConstantArrival",
    "EngineSpec",
    "FaultStep",
    "GammaArrival",
    "LoadPlan",
    "Model",
    "Phases",
    "PoissonArrival",
    "ProcessSpec",
    "RestartPolicy",
    "Scenario",
    "Seconds",
    "Sla",
    "TargetSpec",
    "TraceArrival",
]


MAX_ITEMS = 500
"""Of faults, objectives and rules: more is a generator gone wrong, and every pair of faults is compared."""


def _line_of_grammar(parse: Any) -> AfterValidator:
    def check(text: str) -> str:
        parse(text)
        return text

    return AfterValidator(check)


class RestartPolicy(Model):
    """What happens when the included engine dies in mid-run."""

    policy: Literal["always", "never"] = "always"
    delay: Seconds = 0.5
    """Wait before the first restart; doubles with each further one, up to 30 s."""
    max_restarts: int = Field(5, ge=0)


class EngineSpec(Model):
    """The included engine (``chaosflow serve``)."""

    backend: Literal["sim"] = "sim"
    gpu: str = "h200"
    """Named GPU of the roofline: ``chaosflow serve --list`` shows them."""
    model: str = "llama-3.1-8b"
    """Named model size of the roofline."""
    max_batch: int = Field(64, ge=1)
    """Sequences decoded together."""
    port: int = Field(0, ge=0, le=65535)
    """0 = any free port."""
    restart: RestartPolicy = RestartPolicy()


class ProcessSpec(Model):
    """How to find the processes of a ``url`` target; exactly one of these."""

    listen_port: int | None = Field(None, ge=1, le=65535)
    pid_file: str | None = None
    pid: int | None = Field(None, ge=2)
    name: str | None = Field(None, min_length=1)
    """The program's name as ``ps -o comm`` shows it, or its file's; no two trees of processes may have it."""
    container: str | None = None
    """Container id or name, as it stands in the processes' cgroup path."""
    cgroup: str | None = None
    """A cgroup folder, absolute or below the cgroup mount."""

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(
                f"give exactly one of {', '.join(type(self).model_fields)} (given: {', '.join(given) or 'none'})"
            )
        return self


class TargetSpec(Model):
    """The service under test: the included engine, or an OpenAI-compatible server of the user's."""

    engine: EngineSpec | None = None
    url: str | None = None
    """Base URL with the version path: ``http://127.0.0.1:8000/v1``."""
    model: str | None = None
    """Model name to ask for; default: the first one that ``/models`` lists."""
    api_key: str | None = None
    process: ProcessSpec | None = None
    health: str | None = None
    """Path of the health check; default: ``/health``, then ``/v1/models``."""
    ready_timeout: Seconds = 60.0
    i_own: str | None = None
    """The host name again: required for a target that is not on this machine."""

    @model_validator(mode="after")
    def _one_target(self) -> Self:
        if (self.engine is None) == (self.url is None):
            raise ValueError("give either 'engine' (the included one) or 'url' (your own server)")
        if self.engine is not None:
            odd = [n for n in ("process", "health", "api_key", "i_own") if getattr(self, n) is not None]
            if odd:
                raise ValueError(f"{', '.join(odd)}: only for a target with 'url'")
        elif not self.url or not self.url.startswith(("http://", "https://")):
            raise ValueError(f"url {self.url!r}: must start with http:// or https://")
        elif "@" in self.url.split("/")[2] or any(not c.isprintable() for c in self.url):
            raise ValueError(
                "url: holds credentials or control characters, which are not sent; use api_key or headers"
            )
        return self


class Phases(Model):
    warmup: Seconds = 5.0
    baseline: Seconds = 60.0
    recovery: Seconds = 30.0
    """Watched after each fault's revert."""

    @model_validator(mode="after")
    def _lengths(self) -> Self:
        if self.baseline < 1:
            raise ValueError("baseline: needs at least 1s")
        return self


class FaultStep(Model):
    """One fault on the timeline. ``params`` are checked against the atom named by ``type``."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")
    type: str
    at: Seconds | None = None
    """From the end of the baseline."""
    after: str | None = None
    """``X``: when X's recovery window has ended; ``X.revert``: when X is reverted."""
    with_: str | None = Field(None, alias="with")
    """Alongside that fault."""
    duration: Seconds | None = None
    params: dict[str, Any] = Field({})

    @model_validator(mode="after")
    def _one_start(self) -> Self:
        given = [
            k for k, v in (("at", self.at), ("after", self.after), ("with", self.with_)) if v is not None
        ]
        if len(given) > 1:
            raise ValueError(f"{self.name}: give only one of at, after, with (given: {', '.join(given)})")
        if self.name in RESERVED_NAMES:
            raise ValueError(f"{self.name!r} is a reserved name; call the fault something else")
        return self


class Sla(Model):
    """What must hold."""

    objectives: list[Annotated[str, _line_of_grammar(parse_objective)]] = Field(
        min_length=1, max_length=MAX_ITEMS
    )
    window: Seconds = 60.0
    step: Seconds = 1.0
    on_bad_baseline: Literal["stop", "continue"] = "stop"

    @model_validator(mode="after")
    def _known_step(self) -> Self:
        if self.step != 1.0:
            raise ValueError(f"step: windows slide by 1s, not by {self.step:g}s")
        return self

    def parsed(self) -> tuple[Objective, ...]:
        return tuple(parse_objective(text) for text in self.objectives)


class Scenario(Model):
    version: Literal[1] = 1
    name: str = Field("scenario", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    description: str = ""
    seed: int = Field(7, ge=0, lt=2**63)
    target: TargetSpec
    load: LoadPlan
    phases: Phases = Phases()
    faults: list[FaultStep] = Field([], max_length=MAX_ITEMS)
    probes: list[str] = Field(["engine", "host"], max_length=MAX_ITEMS)
    sla: Sla
    abort: list[Annotated[str, _line_of_grammar(parse_abort)]] = Field([], max_length=MAX_ITEMS)

    @model_validator(mode="after")
    def _probes_differ(self) -> Self:
        for name in self.probes:
            if self.probes.count(name) > 1:
                raise ValueError(f"probe {name!r} is named twice")
        return self

    @model_validator(mode="after")
    def _names_fit(self) -> Self:
        names = [step.name for step in self.faults]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two faults are named {name!r}; names must differ")
        for objective in self.sla.parsed():
            segment = objective.during
            base = (segment or "").removesuffix(".recovery")
            if segment and segment not in ("baseline", "faults", "recovery") and base not in names:
                hint = did_you_mean(segment, ["baseline", "faults", "recovery", *names])
                raise ValueError(
                    f"objective {objective.text!r}: no fault is named {segment!r}"
                    + (f"; {hint}" if hint else "")
                )
        return self

    def abort_rules(self) -> tuple[AbortRule, ...]:
        return tuple(parse_abort(text) for text in self.abort)
