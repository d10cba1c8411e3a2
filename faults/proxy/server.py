"""The proxies of this process: where each listens, where it leads, which toxics act."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from chaosflow.core.errors import ChaosflowError, UsageError
from chaosflow.faults.proxy.address import Address
from chaosflow.faults.proxy.link import Link, Side
from chaosflow.faults.proxy.timers import Timers
from chaosflow.faults.proxy.toxic import Toxic

_BACKLOG = 4096


class Proxy:
    """One listening address that leads to one upstream. Toxics act on open links and on new ones."""

    def __init__(self, name: str, upstream: Address, timers: Timers, rng: random.Random) -> None:
        self.name, self.upstream = name, upstream
        self.listening: Address | None = None
        self.toxics: dict[str, Toxic] = {}
        self.accepted = 0
        self.refused_by_upstream = 0
        self._timers, self._rng = timers, rng
        self._links: set[Link] = set()
        self._connecting: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._bytes = {"upstream": 0, "downstream": 0}

    async def listen(self, address: Address) -> None:
        """Begin to accept; UsageError when the address cannot be had."""
        loop = asyncio.get_running_loop()
        try:
            if address.path:
                self._server = await loop.create_unix_server(self._accept, address.path, backlog=_BACKLOG)
                self.listening = address
            else:
                self._server = await loop.create_server(
                    self._accept, address.host, address.port, backlog=_BACKLOG
                )
                host, port = self._server.sockets[0].getsockname()[:2]
                self.listening = Address(host=host, port=port)
        except OSError as e:
            raise UsageError(
                f"proxy {self.name} on {address}",
                f"cannot listen ({e.strerror})",
                "use port 0 for any free one",
            ) from e

    async def close(self) -> None:
        """Accept no more and reset every link."""
        if self._server:
            self._server.close()
        for task in list(self._connecting):
            task.cancel()
        for link in list(self._links):
            link.reset()
        await asyncio.sleep(0)

    def add(self, toxic: Toxic) -> None:
        if toxic.name in self.toxics:
            raise UsageError(
                f"toxic {toxic.name}", "exists already", "choose another name, or delete it first"
            )
        self.toxics[toxic.name] = toxic
        for link in list(self._links):
            link.attach(toxic)

    def update(self, name: str, changed: Toxic) -> Toxic:
        """Take over the attributes and toxicity of ``changed``: attributes act on open links at once."""
        toxic = self.toxics[name]
        toxic.attributes, toxic.toxicity = changed.attributes, changed.toxicity
        for link in list(self._links):
            link.updated(toxic)
        return toxic

    def remove(self, name: str) -> None:
        toxic = self.toxics.pop(name)
        for link in list(self._links):
            link.detach(toxic)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "listen": str(self.listening),
            "upstream": str(self.upstream),
            "enabled": True,
            "toxics": [toxic.to_json() for toxic in self.toxics.values()],
            "stats": {
                "accepted": self.accepted,
                "open": len(self._links),
                "upstream_failures": self.refused_by_upstream,
                "upstream_bytes": self._bytes["upstream"] + sum(k.upward.bytes for k in self._links),
                "downstream_bytes": self._bytes["downstream"] + sum(k.downward.bytes for k in self._links),
            },
        }

    def _accept(self) -> Side:
        link = Link(self._timers, self._rng, self._gone)
        return link.on_accept(lambda: self._begin(link))

    def _begin(self, link: Link) -> None:
        self.accepted += 1
        self._links.add(link)
        for toxic in self.toxics.values():
            link.attach(toxic)
        task = asyncio.get_running_loop().create_task(self._connect(link))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self, link: Link) -> None:
        loop, to = asyncio.get_running_loop(), self.upstream
        try:
            if to.path:
                await loop.create_unix_connection(lambda: link.server, to.path)
            else:
                await loop.create_connection(lambda: link.server, to.host, to.port)
        except OSError:
            self.refused_by_upstream += 1
            link.reset()  # what a client of the dead server itself would see

    def _gone(self, link: Link) -> None:
        if link in self._links:
            self._links.discard(link)
            self._bytes["upstream"] += link.upward.bytes
            self._bytes["downstream"] += link.downward.bytes


class Proxies:
    """All proxies of the process, by name."""

    def __init__(self, seed: int | None = None) -> None:
        self.timers = Timers()
        self._rng = random.Random(seed)
        self._by_name: dict[str, Proxy] = {}

    def __iter__(self) -> Any:
        return iter(list(self._by_name.values()))

    def get(self, name: str) -> Proxy | None:
        return self._by_name.get(name)

    async def create(self, name: str, listen: Address, upstream: Address) -> Proxy:
        if name in self._by_name:
            raise UsageError(f"proxy {name}", "exists already", "choose another name, or delete it first")
        proxy = Proxy(name, upstream, self.timers, self._rng)
        await proxy.listen(listen)
        self._by_name[name] = proxy
        return proxy

    async def delete(self, name: str) -> None:
        await self._by_name.pop(name).close()

    async def close(self) -> None:
        for name in list(self._by_name):
            try:
                await self.delete(name)
            except ChaosflowError:
                continue
        await asyncio.sleep(0)
        self.timers.close()
