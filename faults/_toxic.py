"""What the atoms that act through the fault proxy share: a toxic is added, looked at, removed."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal

from chaosflow.core.errors import CapabilityError
from chaosflow.core.fault import Capability, Effect, FaultAtom, Undo
from chaosflow.core.host import Host
from chaosflow.faults.proxy import client

Direction = Literal["downstream", "upstream", "both"]
PROXY_NAME = "target"


class ToxicFault(FaultAtom):
    """A fault that is one toxic, or one for each direction, on the proxy between load and target.

    A subclass says which by ``toxic`` and judges what it did by ``judge``.
    """

    composes: ClassVar[bool] = True
    needs_proxy: ClassVar[bool] = True
    undone_by: ClassVar[str] = "curl --unix-socket CONTROL -X DELETE http://proxy/proxies/target/toxics/NAME"

    @abstractmethod
    def toxic(self) -> dict[str, Any]:
        """``type``, ``attributes`` and, unless 1, ``toxicity``."""

    @classmethod
    @abstractmethod
    def judge(cls, toxic: dict[str, Any], stats: dict[str, Any]) -> Effect:
        """Whether the installed toxic really does what it was asked, from what the proxy measured."""

    def streams(self) -> tuple[str, ...]:
        """The directions that it acts on; a subclass with a ``direction`` needs no override."""
        direction = getattr(self, "direction", "downstream")
        return ("downstream", "upstream") if direction == "both" else (direction,)

    def resource(self, host: Host) -> frozenset[str]:
        return frozenset(f"proxy:{stream}" for stream in self.streams())

    def check(self, host: Host) -> Capability:
        return proxy_capability(host)

    async def plan(self, host: Host, name: str) -> Undo:
        if host.proxy is None:
            raise CapabilityError(f"{self.kind} {name}", "no fault proxy is in the path")
        streams, control = self.streams(), str(host.proxy.control)
        toxics = [
            {**self.toxic(), "name": name if len(streams) == 1 else f"{name}.{stream}", "stream": stream}
            for stream in streams
        ]
        base = f"http://proxy/proxies/{PROXY_NAME}/toxics"
        manual = [f"curl -s --unix-socket {control} -X DELETE {base}/{toxic['name']}" for toxic in toxics]
        state = {"control": control, "proxy": PROXY_NAME, "toxics": toxics}
        return Undo(kind=self.kind, name=name, run_id=host.run_id, state=state, manual="; ".join(manual))

    async def inject(self, undo: Undo) -> None:
        for toxic in undo.state["toxics"]:
            await client.add_toxic(undo.state["control"], undo.state["proxy"], toxic)

    @classmethod
    async def look(cls, undo: Undo) -> Effect:
        """Active when every one of its toxics is; without effect where the proxy itself failed requests."""
        try:
            status, proxy = await client.request(
                undo.state["control"], "GET", f"/proxies/{undo.state['proxy']}"
            )
        except client.ProxyGone as e:
            return Effect(False, f"not installed: {e.thing} {e.cause}")
        if status != 200:
            return Effect(False, "not installed: the proxy was deleted")
        installed = {toxic["name"]: toxic for toxic in proxy["toxics"]}
        effects = []
        for toxic in undo.state["toxics"]:
            if (found := installed.get(toxic["name"])) is None:
                return Effect(False, "not installed in the proxy")
            effects.append((toxic["stream"], cls.judge(found, found["stats"])))
        prefix = len(effects) > 1
        text = "; ".join((f"{stream}: " if prefix else "") + effect.evidence for stream, effect in effects)
        judged = [effect for _, effect in effects]
        starved = proxy["stats"]["starved"]
        if starved:  # what that cost would be taken for the target's doing
            text += f"; the proxy had no file descriptor left {starved} times: raise the limit (ulimit -Hn)"
        met = any(e.met for e in judged) and not starved
        return Effect(all(e.active for e in judged), text, met)

    @staticmethod
    async def revert(undo: Undo) -> None:
        """Remove the toxics. Bytes already delayed still arrive when due, in order."""
        for toxic in undo.state["toxics"]:
            await client.remove_toxic(undo.state["control"], undo.state["proxy"], toxic["name"])


def proxy_capability(host: Host) -> Capability:
    """Whether the proxy is, or will be, in the path. Reads only."""
    if host.proxy is None and not host.planning:
        return Capability.no("no fault proxy is in the path between load and target")
    return Capability.yes("fault proxy in the path of every request")


def waiting(stats: dict[str, Any]) -> Effect:
    """In place, with nothing to measure yet: why."""
    if stats["held_bytes"]:
        return Effect(True, f"installed; the first {stats['held_bytes']} bytes are held")
    if stats["chunks"]:
        text = f"installed; none of {stats['chunks']} chunks of {stats['bytes']} bytes was acted on"
    elif stats["connections"]:
        text = f"installed on {stats['connections']} connections; 0 bytes have passed"
    else:
        text = "installed; 0 connections have met it"
    return Effect(True, text, met=False)
