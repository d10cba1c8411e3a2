"""Speaking to a proxy's control API over its Unix socket. Keeps nothing open between calls."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from chaosflow.core.errors import ChaosflowError

_TIMEOUT_S = 5.0


class ProxyGone(ChaosflowError):
    """Nobody answers on the control socket: the proxy, and with it every connection through it, has ended."""


class ProxyRefused(ChaosflowError):
    """The proxy answered with an error."""


async def request(control: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """Status and JSON value of one request; ProxyGone when there is no proxy, or none that answers in 5 s."""
    thing = f"fault proxy at {control}"
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            reader, writer = await asyncio.open_unix_connection(control)
            content = b"" if body is None else json.dumps(body).encode()
            writer.write(
                f"{method} {path} HTTP/1.1\r\nHost: proxy\r\nContent-Length: {len(content)}\r\n\r\n".encode()
                + content
            )
            return await _read_answer(reader)
    except (FileNotFoundError, ConnectionError, asyncio.IncompleteReadError) as e:
        raise ProxyGone(
            thing, f"does not answer ({type(e).__name__})", "it has ended: start the run anew"
        ) from e
    except TimeoutError as e:
        raise ProxyRefused(thing, f"gave no answer within {_TIMEOUT_S:g} s", "is it stopped?") from e
    finally:
        if writer is not None:
            writer.close()


async def _read_answer(reader: asyncio.StreamReader) -> tuple[int, Any]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    size = int(head.partition("content-length:")[2].partition("\r\n")[0] or 0)
    content = await reader.readexactly(size)
    return int(head.split(" ", 2)[1]), json.loads(content) if content else None


async def add_toxic(control: str, proxy: str, toxic: dict[str, Any]) -> None:
    """Add a toxic, or set its attributes anew if it is there already."""
    status, answer = await request(control, "POST", f"/proxies/{proxy}/toxics", toxic)
    if status == 409:
        changed = {key: value for key, value in toxic.items() if key in ("attributes", "toxicity")}
        status, answer = await request(control, "POST", f"/proxies/{proxy}/toxics/{toxic['name']}", changed)
    if status >= 300:
        raise ProxyRefused(f"toxic {toxic['name']}", str(answer["error"]))


async def remove_toxic(control: str, proxy: str, name: str) -> None:
    """Remove a toxic; no error when it is not there, or the proxy is gone."""
    try:
        status, answer = await request(control, "DELETE", f"/proxies/{proxy}/toxics/{name}")
    except ProxyGone:
        return
    if status not in (204, 404):
        raise ProxyRefused(f"toxic {name}", str(answer["error"]))


async def get_proxy(control: str, name: str) -> dict[str, Any]:
    """The proxy with its ``stats``."""
    status, answer = await request(control, "GET", f"/proxies/{name}")
    if status != 200:
        raise ProxyRefused(f"proxy {name}", str(answer["error"]))
    found: dict[str, Any] = answer
    return found


async def enable_proxy(control: str, name: str, *, on: bool) -> None:
    """Let it listen, or not: then open connections are reset. No change when it is so already."""
    status, answer = await request(control, "POST", f"/proxies/{name}", {"enabled": on})
    if status != 200:
        raise ProxyRefused(f"proxy {name}", str(answer["error"]))
