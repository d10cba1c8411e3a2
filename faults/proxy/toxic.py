"""What a toxic is: validated attributes, and a stage for each lane it acts on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from chaosflow.faults.proxy.lane import Lane, Stage
from chaosflow.faults.proxy.stats import Stats

Stream = Literal["downstream", "upstream"]


class Attributes(BaseModel):
    """Parameters of a toxic, under the names that Toxiproxy gives them."""

    model_config = ConfigDict(extra="forbid")


class Toxic(BaseModel, ABC):
    """One named toxic of one proxy. Adding one: a file in ``toxics/`` with a subclass of this."""

    model_config = ConfigDict(extra="forbid")

    type: ClassVar[str]

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    stream: Stream = "downstream"
    toxicity: float = Field(1.0, ge=0, le=1)
    """Share of the connections that it acts on; decided once for each."""
    attributes: Any
    _stats: Stats = PrivateAttr(default_factory=Stats)

    @property
    def stats(self) -> Stats:
        return self._stats

    @abstractmethod
    def stage(self, lane: Lane) -> Stage:
        """A new stage that acts on this lane from now on."""

    def figures(self) -> dict[str, Any]:
        """``stats`` of the JSON form; a subclass adds what only it measures."""
        return self._stats.to_json()

    def to_json(self) -> dict[str, Any]:
        return {"type": self.type, **self.model_dump(), "stats": self.figures()}
