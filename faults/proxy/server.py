"""The proxies of this process: where each listens, where it leads, which toxics act."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import random
import socket
import stat
from typing import Any

from chaosflow.core.errors import ChaosflowError, UsageError
from chaosflow.faults.proxy.address import Address
from chaosflow.faults.proxy.link import Link, Side
from chaosflow.faults.proxy.listener import Listener
from chaosflow.faults.proxy.timers import Timers
from chaosflow.faults.proxy.toxic import Toxic


class Proxy:
    """One listening address that leads to one upstream. Toxics act on open links and on new ones."""

    def __init__(
        self, name: str, listen: Address, upstream: Address, timers: Timers, rng: random.Random
    ) -> None:
        self.name, self.listen, self.upstream = name, listen, upstream
        self.listening: Address | None = None
        """Where it accepts, or did last."""
        self.toxics: dict[str, Toxic] = {}
        self.accepted = 0
        self.refused_by_upstream = 0
        self.reset_by_down = 0
        self.refuses = False
        """Seen when it was disabled: a connection attempt is refused."""
        self._timers, self._rng = timers, rng
        self._reserved: socket.socket | None = None
        self._links: set[Link] = set()
        self._connecting: set[asyncio.Task[None]] = set()
        self._listener: Listener | None = None
        self._starved = 0
        self._bytes = {"upstream": 0, "downstream": 0}

    @property
    def enabled(self) -> bool:
        return self._listener is not None

    @property
    def starved(self) -> int:
        """How often a connection had to wait, or failed, since the proxy had no file descriptor left for it."""
        return self._starved + (self._listener.starved if self._listener else 0)

    async def start(self) -> None:
        """Begin to accept, where it did before if it did; UsageError when the address cannot be had."""
        if self._listener:
            return
        self._let_reserved_go()
        address = self.listening or self.listen
        try:
            sock = _bound_unix(address.path) if address.path else await _bound(address)
            self._listener = Listener(sock, self._accept)
            if not address.path:
                host, port = sock.getsockname()[:2]
                address = Address(host=host, port=port)
            self.listening = address
        except OSError as e:
            raise UsageError(
                f"proxy {self.name} on {address}",
                f"cannot listen ({e.strerror})",
                "use port 0 for any free one",
            ) from e

    async def stop(self) -> None:
        """Accept no more and reset every link. The port stays ours, so that ``start`` finds it free."""
        if not self._listener:
            return
        self._listener.close()
        self._starved += self._listener.starved
        self._listener = None
        for task in list(self._connecting):
            task.cancel()
        self.reset_by_down = len(self._links)
        for link in list(self._links):
            link.reset()
        await asyncio.sleep(0)
        if self.listening and not self.listening.path:
            with contextlib.suppress(OSError):
                self._reserved = await _bound(self.listening)
        self.refuses = await _refuses(self.listening) if self.listening else True

    async def close(self) -> None:
        """As ``stop``, for good."""
        await self.stop()
        self._let_reserved_go()

    async def change(self, listen: Address, upstream: Address, *, enabled: bool) -> None:
        """Other addresses reset every link, as disabling does; without any change nothing happens."""
        if listen not in (self.listen, self.listening) or upstream != self.upstream:
            await self.close()
            if listen not in (self.listen, self.listening):
                self.listen, self.listening = listen, None
            self.upstream = upstream
        await (self.start() if enabled else self.stop())

    def _let_reserved_go(self) -> None:
        if self._reserved:
            self._reserved.close()
            self._reserved = None

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
            "listen": str(self.listening or self.listen),
            "upstream": str(self.upstream),
            "enabled": self.enabled,
            "toxics": [toxic.to_json() for toxic in self.toxics.values()],
            "stats": {
                "accepted": self.accepted,
                "open": len(self._links),
                "upstream_failures": self.refused_by_upstream,
                "starved": self.starved,
                "reset_by_down": self.reset_by_down,
                "refuses": self.refuses and not self.enabled,
                "upstream_bytes": self._bytes["upstream"] + sum(k.upward.bytes for k in self._links),
                "downstream_bytes": self._bytes["downstream"] + sum(k.downward.bytes for k in self._links),
            },
        }

    def _accept(self) -> Side:
        link = Link(self._timers, self._rng, self._gone)
        return link.on_accept(lambda: self._begin(link))

    def _begin(self, link: Link) -> None:
        if not self._listener:  # stopped since it was accepted
            link.reset()
            return
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
        except OSError as e:
            if e.errno in (errno.EMFILE, errno.ENFILE):
                self._starved += 1
            else:
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

    async def create(self, name: str, listen: Address, upstream: Address, *, enabled: bool = True) -> Proxy:
        if name in self._by_name:
            raise UsageError(f"proxy {name}", "exists already", "choose another name, or delete it first")
        proxy = Proxy(name, listen, upstream, self.timers, self._rng)
        if enabled:
            await proxy.start()
        self._by_name[name] = proxy
        return proxy

    async def populate(self, name: str, listen: Address, upstream: Address, *, enabled: bool = True) -> Proxy:
        """As ``create``; one of that name with the same addresses is kept, toxics included, any other replaced."""
        known = self._by_name.get(name)
        if known and listen in (known.listen, known.listening) and upstream == known.upstream:
            await known.change(listen, upstream, enabled=enabled)
            return known
        if known:
            await self.delete(name)
        return await self.create(name, listen, upstream, enabled=enabled)

    async def reset(self) -> None:
        """Enable every proxy and remove every toxic."""
        for proxy in self:
            for name in list(proxy.toxics):
                proxy.remove(name)
            await proxy.start()

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


async def _bound(address: Address) -> socket.socket:
    """A TCP socket on the first of the addresses that the host stands for, IPv4 before IPv6."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(
        address.host or None, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    family, kind, protocol, _, where = min(found, key=lambda info: info[0] != socket.AF_INET)
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setblocking(False)
        sock.bind(where)
    except OSError:
        sock.close()
        raise
    return sock


def _bound_unix(path: str) -> socket.socket:
    """A Unix socket at that path, in the place of one that is there already."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(os.stat(path).st_mode):
            os.unlink(path)
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.bind(path)
    except OSError:
        sock.close()
        raise
    return sock


async def _refuses(address: Address) -> bool:
    """Whether nobody accepts there."""
    try:
        if address.path:
            _, writer = await asyncio.open_unix_connection(address.path)
        else:
            _, writer = await asyncio.open_connection(address.host, address.port)
    except OSError:
        return True
    writer.close()
    return False
