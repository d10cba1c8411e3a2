"""The few plain GETs the orchestrator makes itself: health and models."""

from __future__ import annotations

import asyncio
import http.client
import socket
import ssl
from pathlib import Path
from urllib.parse import urlsplit


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def _get(url: str, control: Path | None, headers: dict[str, str], timeout_s: float) -> tuple[int, bytes]:
    parts = urlsplit(url)
    connection: http.client.HTTPConnection
    if control is not None:
        connection = _UnixConnection(control, timeout_s)
    elif parts.scheme == "https":
        context = ssl.create_default_context()
        connection = http.client.HTTPSConnection(
            parts.hostname or "", parts.port, timeout=timeout_s, context=context
        )
    else:
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_s)
    try:
        connection.request("GET", parts.path or "/", headers=headers)
        response = connection.getresponse()
        return response.status, response.read(1 << 20)
    finally:
        connection.close()


async def get(
    url: str, *, control: Path | None = None, api_key: str | None = None, timeout_s: float = 2.0
) -> tuple[int, bytes]:
    """Status and body (at most 1 MiB); through the Unix socket ``control`` where given.

    Raises OSError or http.client.HTTPException. Does not follow redirects.
    """
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    return await asyncio.to_thread(_get, url, control, headers, timeout_s)
