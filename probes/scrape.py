"""One GET of a Prometheus page, over TCP, TLS or a Unix socket, and the numbers on it."""

from __future__ import annotations

import asyncio
import re
import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from chaosflow.core.host import TargetHandle

_LINE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)")
_STATUS = re.compile(r"^HTTP/\d\S* (\d{3})")
MAX_BYTES = 8 << 20
Page = dict[tuple[str, str], float]
"""(metric, labels as written) -> value."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a page is."""

    host: str
    port: int
    path: str
    tls: bool = False
    socket: Path | None = None
    """Connect to this Unix socket instead."""

    @classmethod
    def of(cls, target: TargetHandle, path: str = "/metrics") -> Endpoint:
        """A path of a target: over its control socket if it has one, else at the root of its URL."""
        if target.control is not None:
            return cls("localhost", 0, path, socket=target.control)
        url = urlsplit(target.url)
        tls = url.scheme == "https"
        return cls(url.hostname or "localhost", url.port or (443 if tls else 80), path, tls)

    def __str__(self) -> str:
        if self.socket is not None:
            return f"{self.socket}:{self.path}"
        return f"{'https' if self.tls else 'http'}://{self.host}:{self.port}{self.path}"


async def fetch(endpoint: Endpoint, timeout_s: float) -> Page:
    """The page's numbers. Raises OSError (also on a status other than 200) or TimeoutError."""
    status, line, body = await ask(endpoint, timeout_s)
    if status != 200:
        raise OSError(f"{endpoint} answers {line or 'nothing'}")
    return parse(body.decode("utf-8", "replace"))


async def ask(endpoint: Endpoint, timeout_s: float) -> tuple[int, str, bytes]:
    """Status (0 = none), status line and body of one GET. Raises OSError or TimeoutError."""
    async with asyncio.timeout(timeout_s):
        reader, writer = await _connect(endpoint)
        try:
            # HTTP/1.0: no chunks, and the server closes at the end
            writer.write(f"GET {endpoint.path} HTTP/1.0\r\nHost: {endpoint.host}\r\n\r\n".encode())
            await writer.drain()
            answer = await _read_all(reader)
        finally:
            writer.transport.abort()
    head, _, body = answer.partition(b"\r\n\r\n")
    line = head.split(b"\r\n", 1)[0].decode("latin-1")
    found = _STATUS.match(line)
    return int(found[1]) if found else 0, line, body


async def _connect(endpoint: Endpoint) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if endpoint.socket is not None:
        return await asyncio.open_unix_connection(str(endpoint.socket))
    context = ssl.create_default_context() if endpoint.tls else None
    return await asyncio.open_connection(endpoint.host, endpoint.port, ssl=context)


async def _read_all(reader: asyncio.StreamReader) -> bytes:
    parts, size = [], 0
    while part := await reader.read(1 << 16):
        parts.append(part)
        if (size := size + len(part)) > MAX_BYTES:
            raise OSError(f"the page is longer than {MAX_BYTES} bytes")
    return b"".join(parts)


def parse(text: str) -> Page:
    """All samples of a text-format page; comments and unreadable lines are skipped."""
    page: Page = {}
    for line in text.splitlines():
        if (match := _LINE.match(line)) is not None:
            try:
                page[match[1], match[2] or ""] = float(match[3])
            except ValueError:
                continue
    return page


def total(page: Page, metric: str) -> float | None:
    """Sum of one metric over all its labels; None when it is not there."""
    values = [value for (name, _), value in page.items() if name == metric]
    return sum(values) if values else None
