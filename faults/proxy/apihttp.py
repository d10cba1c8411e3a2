"""The HTTP/1.1 of the control API: requests read, JSON answers written. Refuses browsers, as Toxiproxy does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

_BODY_LIMIT = 1 << 20
_REASONS = {
    200: "OK", 201: "Created", 204: "No Content", 400: "Bad Request", 403: "Forbidden",
    404: "Not Found", 405: "Method Not Allowed", 409: "Conflict", 413: "Content Too Large",
}  # fmt: skip

Answer = tuple[int, Any]


@dataclass(frozen=True, slots=True)
class ApiRequest:
    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes
    stays: bool
    """The connection is kept for another request."""

    def from_a_browser(self) -> bool:
        """A web page that a user happens to look at must not reach an API on localhost."""
        agent = self.headers.get("user-agent", "")
        return agent.startswith("Mozilla/") or "origin" in self.headers


async def serve(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    answer: Callable[[str, str, bytes], Awaitable[Answer]],
) -> None:
    """One connection, until the client closes it, or speaks no HTTP."""
    try:
        stays = True
        while stays and (request := await _read_request(reader)) is not None:
            if request.from_a_browser():
                status, value = 403, {"error": "User agent not allowed", "status": 403}
            else:
                status, value = await answer(request.method, request.path, request.body)
            stays = request.stays
            writer.write(_response(status, value, stays=stays))
            await writer.drain()
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
        pass  # a client that went away, or speaks no HTTP
    except asyncio.CancelledError:
        pass  # the proxy ends; older Pythons (3.11) print a traceback of a connection that was cancelled
    finally:
        writer.close()


def _response(status: int, value: Any, *, stays: bool) -> bytes:
    content = b"" if value is None else json.dumps(value).encode() + b"\n"
    length = "" if status == 204 else f"Content-Length: {len(content)}\r\n"
    close = "" if stays else "Connection: close\r\n"
    head = f"HTTP/1.1 {status} {_REASONS.get(status, '')}\r\nContent-Type: application/json\r\n{length}{close}\r\n"
    return head.encode() + content


async def _read_request(reader: asyncio.StreamReader) -> ApiRequest | None:
    """The next request; None when the client has closed."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    request_line, *header_lines = head.rstrip("\r\n").split("\r\n")
    method, path, version = request_line.split(" ", 2)
    headers = {
        key.strip().lower(): value.strip() for key, _, value in (h.partition(":") for h in header_lines)
    }
    if "chunked" in headers.get("transfer-encoding", "").lower():
        body = await _read_chunks(reader)
    else:
        body = await reader.readexactly(_limited(int(headers.get("content-length", "0"))))
    stays = version != "HTTP/1.0" and headers.get("connection", "").lower() != "close"
    return ApiRequest(method, path, headers, body, stays)


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        body += await reader.readexactly(_limited(len(body) + size) - len(body))
        await reader.readexactly(2)
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass  # trailer
    return bytes(body)


def _limited(size: int) -> int:
    if size > _BODY_LIMIT:
        raise ValueError("body too large")
    return size
