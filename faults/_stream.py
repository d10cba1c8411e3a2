"""What the stream faults share: which streams they choose, and how their effect is judged."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from chaosflow.core.fault import Effect
from chaosflow.core.host import Host
from chaosflow.faults._toxic import ToxicFault, waiting


class StreamFault(ToxicFault):
    """A fault at token boundaries, on the proxy, of HTTP/1.1 responses with server-sent events.

    The params of a subclass are, by name, the attributes of its toxic.
    """

    toxic_type: ClassVar[str]
    did: ClassVar[str]
    """What it did, behind a number: ``streams truncated``."""
    what: ClassVar[str] = "streams"
    acts_on: ClassVar[str] = "streamed responses, on the proxy"
    requires: ClassVar[str] = "an HTTP/1.1 server with server-sent events, without TLS or compression"

    probability: float = Field(1.0, gt=0, le=1)
    """Share of the streams that it acts on."""
    path: str | None = Field(None, min_length=1)
    """Only answers to requests of this path; ``*`` stands for anything."""
    count: int | None = Field(None, ge=1)
    """At most so many streams; without it, all until the revert."""

    def resource(self, host: Host) -> frozenset[str]:
        return frozenset(f"proxy:{stream}" for stream in self.streams())

    def toxic(self) -> dict[str, Any]:
        return {"type": self.toxic_type, "attributes": self.model_dump()}

    @classmethod
    def judge(cls, toxic: dict[str, Any], stats: dict[str, Any]) -> Effect:
        acted, chosen, seen = (int(stats.get(key, 0)) for key in ("acted", "chosen", "streams"))
        detail = f"{chosen} of {seen} {cls.what} chosen"
        if "events" in stats:
            detail += f", {int(stats['events'])} content events seen"
        if acted:
            return Effect(True, f"{acted} {cls.did}; {detail}")
        if not stats["chunks"]:
            return waiting(stats)
        reason = cls.why_not(toxic["attributes"])
        if seen and not chosen and toxic["attributes"]["probability"] < 1:
            reason = "give it more time or a higher probability"
        return Effect(True, f"no {cls.did} in {stats['installed_s']:.0f} s: {detail}; {reason}", met=False)

    @classmethod
    def why_not(cls, attributes: dict[str, Any]) -> str:
        """What may be the reason that nothing was acted on for so long."""
        return "is the load streaming, and on that path?"
