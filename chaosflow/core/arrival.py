"""When requests are wanted: the kinds of arrival process, as a scenario writes them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from chaosflow.core.fields import Model, Seconds
from chaosflow.core.rate import MAX_RATE_PER_S, RateProfile, Stage
from chaosflow.core.tracefile import TraceRow, arrivals_before, read_trace


class _RatedArrival(Model):
    rate_per_s: float = Field(gt=0, le=MAX_RATE_PER_S)
    stages: list[Stage] = Field([])

    @property
    def steady_rate_per_s(self) -> float | None:
        """The rate, where it is the same all the time and its scatter at most that of a Poisson process."""
        return None if self.stages else self.rate_per_s

    def wanted(self, at_s: float) -> float:
        """Arrivals expected from the start of the load to ``at_s``; below 0 before the start."""
        return RateProfile(self.rate_per_s, self.stages).wanted(at_s)


class PoissonArrival(_RatedArrival):
    kind: Literal["poisson"]


class ConstantArrival(_RatedArrival):
    kind: Literal["constant"]


class GammaArrival(_RatedArrival):
    """Gaps from a gamma distribution."""

    kind: Literal["gamma"]
    cv: float = Field(gt=0, le=100)
    """Coefficient of variation of the gaps: 1 is Poisson, more comes in bursts, less is more even."""

    @property
    def steady_rate_per_s(self) -> float | None:
        return super().steady_rate_per_s if self.cv <= 1 else None


class ClosedArrival(Model):
    kind: Literal["closed"]
    users: int = Field(ge=1, le=100_000)
    """Requests kept under way at once."""
    think_time: Seconds = 0.0
    """Pause of a user between the end of one request and the next."""

    @property
    def steady_rate_per_s(self) -> None:
        return None


class TraceArrival(Model):
    """Recorded traffic, replayed (chaosflow.core.tracefile)."""

    kind: Literal["trace"]
    file: str = Field(min_length=1)
    speed: float = Field(1.0, ge=1e-6, le=1e6)
    """2 = twice as fast."""
    repeat: bool = False
    """Begin again when it has ended; otherwise the load ends with it."""
    max_prompt_tokens: int | None = Field(None, ge=1)
    """Longer prompts are cut to that."""
    max_output_tokens: int | None = Field(None, ge=1)

    @property
    def rate_per_s(self) -> float:
        """Mean rate over the whole trace. Reads the file; raises UsageError."""
        rows = read_trace(self.file)
        return self.speed * len(rows) / max(1.0, rows[-1].at_s)

    @property
    def steady_rate_per_s(self) -> None:
        return None

    def wanted(self, at_s: float) -> float:
        """Arrivals from the start of the load to just before ``at_s``. Reads the file; raises UsageError."""
        return arrivals_before(read_trace(self.file), at_s * self.speed, self.repeat)

    def lengths(self, row: TraceRow) -> tuple[int, int]:
        """Prompt and output tokens of a row, cut to what the plan allows."""
        return (
            min(row.prompt_tokens, self.max_prompt_tokens or row.prompt_tokens),
            min(row.output_tokens, self.max_output_tokens or row.output_tokens),
        )

    def mean_lengths(self) -> tuple[float, float]:
        """Mean prompt and output tokens over the whole trace. Reads the file; raises UsageError."""
        lengths = [self.lengths(row) for row in read_trace(self.file)]
        return sum(p for p, _ in lengths) / len(lengths), sum(o for _, o in lengths) / len(lengths)


RatedArrival = PoissonArrival | ConstantArrival | GammaArrival
OpenArrival = RatedArrival | TraceArrival
Arrival = Annotated[OpenArrival | ClosedArrival, Field(discriminator="kind")]
