"""The control API: HTTP/1.1 with JSON over a Unix socket, in Toxiproxy's vocabulary.

GET  /version                          GET, POST         /proxies/{p}/toxics
GET, POST   /proxies                   GET, POST, DELETE /proxies/{p}/toxics/{t}
GET, DELETE /proxies/{p}               POST              /reset   (removes all toxics)

Beyond Toxiproxy, a toxic and a proxy carry ``stats``: what they did, measured.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import ValidationError

from chaosflow import __version__
from chaosflow.core.errors import UsageError
from chaosflow.core.units import did_you_mean
from chaosflow.faults.proxy.address import Address
from chaosflow.faults.proxy.server import Proxies, Proxy
from chaosflow.faults.proxy.toxic import Toxic
from chaosflow.faults.proxy.toxics import toxic_types

_BODY_LIMIT = 1 << 20
_REASONS = {200: "OK", 201: "Created", 204: "No Content", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 409: "Conflict"}  # fmt: skip


class ApiError(Exception):
    """An answer other than success."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


Answer = tuple[int, Any]


class Control:
    """Answers requests on ``proxies``. ``serve`` handles one connection, keep-alive included."""

    def __init__(self, proxies: Proxies) -> None:
        self._proxies = proxies

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await _read_request(reader)) is not None:
                method, path, body = request
                status, answer = await self.answer(method, path, body)
                content = b"" if answer is None else json.dumps(answer).encode() + b"\n"
                writer.write(
                    f"HTTP/1.1 {status} {_REASONS.get(status, '')}\r\nContent-Type: application/json\r\n"
                    f"Content-Length: {len(content)}\r\n\r\n".encode()
                    + content
                )
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            pass  # a client that went away, or speaks no HTTP
        finally:
            writer.close()

    async def answer(self, method: str, path: str, body: bytes) -> Answer:
        """Status and JSON value of one request; errors as Toxiproxy words them."""
        try:
            return await self._route(method, path.split("?")[0].strip("/").split("/"), body)
        except ApiError as e:
            return e.status, {"error": str(e), "status": e.status}
        except UsageError as e:
            status = 409 if "exists already" in e.cause else 400
            return status, {"error": str(e), "status": status}
        except ValidationError as e:
            text = "; ".join(f"{'.'.join(map(str, p['loc']))}: {p['msg']}" for p in e.errors())
            return 400, {"error": text, "status": 400}

    async def _route(self, method: str, parts: list[str], body: bytes) -> Answer:
        match parts:
            case ["version"]:
                return await _by_method(method, GET=lambda: _now({"version": __version__}))
            case ["reset"]:
                return await _by_method(method, POST=self._reset)
            case ["proxies"]:
                return await _by_method(method, GET=self._list, POST=lambda: self._create(_object(body)))
            case ["proxies", name]:
                proxy = self._proxy(name)
                return await _by_method(
                    method, GET=lambda: _now(proxy.to_json()), DELETE=lambda: self._delete(proxy)
                )
            case ["proxies", name, "toxics"]:
                proxy = self._proxy(name)
                return await _by_method(
                    method,
                    GET=lambda: _now([toxic.to_json() for toxic in proxy.toxics.values()]),
                    POST=lambda: _add_toxic(proxy, _object(body)),
                )
            case ["proxies", name, "toxics", toxic_name]:
                proxy = self._proxy(name)
                toxic = _toxic(proxy, toxic_name)
                return await _by_method(
                    method,
                    GET=lambda: _now(toxic.to_json()),
                    POST=lambda: _update_toxic(proxy, toxic, _object(body)),
                    DELETE=lambda: _remove_toxic(proxy, toxic),
                )
        raise ApiError(404, f"no such resource: /{'/'.join(parts)}")

    def _proxy(self, name: str) -> Proxy:
        if (proxy := self._proxies.get(name)) is None:
            raise ApiError(404, f"proxy not found: {name}")
        return proxy

    async def _list(self) -> Answer:
        return 200, {proxy.name: proxy.to_json() for proxy in self._proxies}

    async def _create(self, given: dict[str, Any]) -> Answer:
        missing = [key for key in ("name", "upstream") if not given.get(key)]
        if missing:
            raise ApiError(400, f"missing required field: {', '.join(missing)}")
        proxy = await self._proxies.create(
            given["name"],
            Address.parse(given.get("listen") or "127.0.0.1:0"),
            Address.parse(given["upstream"]),
        )
        return 201, proxy.to_json()

    async def _delete(self, proxy: Proxy) -> Answer:
        await self._proxies.delete(proxy.name)
        return 204, None

    async def _reset(self) -> Answer:
        for proxy in self._proxies:
            for name in list(proxy.toxics):
                proxy.remove(name)
        return 204, None


async def _add_toxic(proxy: Proxy, given: dict[str, Any]) -> Answer:
    toxic = _make(given)
    proxy.add(toxic)
    return 200, toxic.to_json()


async def _update_toxic(proxy: Proxy, toxic: Toxic, given: dict[str, Any]) -> Answer:
    attributes = {**toxic.attributes.model_dump(), **given.get("attributes", {})}
    changed = type(toxic).model_validate({**toxic.model_dump(), **given, "attributes": attributes})
    if (changed.name, changed.stream) != (toxic.name, toxic.stream):
        raise ApiError(400, "name and stream of a toxic cannot change; delete it and add another")
    return 200, proxy.update(toxic.name, changed).to_json()


async def _remove_toxic(proxy: Proxy, toxic: Toxic) -> Answer:
    proxy.remove(toxic.name)
    return 204, None


def _toxic(proxy: Proxy, name: str) -> Toxic:
    if name not in proxy.toxics:
        raise ApiError(404, f"toxic not found: {name}")
    return proxy.toxics[name]


def _make(given: dict[str, Any]) -> Toxic:
    kind = str(given.pop("type", ""))
    known = toxic_types()
    if kind not in known:
        hint = did_you_mean(kind, known) or f"known: {', '.join(sorted(known))}"
        raise ApiError(400, f"invalid toxic type {kind!r}; {hint}")
    given.setdefault("name", f"{kind}_{given.get('stream', 'downstream')}")
    given.setdefault("attributes", {})
    return known[kind].model_validate(given)


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body or b"{}")
    except ValueError as e:
        raise ApiError(400, f"bad request body: {e}") from e
    if not isinstance(value, dict):
        raise ApiError(400, "bad request body: expected a JSON object")
    return value


async def _now(value: Any) -> Answer:
    return 200, value


async def _by_method(method: str, **handlers: Callable[[], Awaitable[Answer]]) -> Answer:
    if method not in handlers:
        raise ApiError(405, f"{method}: use {' or '.join(handlers)}")
    return await handlers[method]()


async def _read_request(reader: asyncio.StreamReader) -> tuple[str, str, bytes] | None:
    """Method, path and body; None when the client has closed."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    request_line, *header_lines = head.rstrip("\r\n").split("\r\n")
    method, path, _ = request_line.split(" ", 2)
    headers = {
        key.strip().lower(): value.strip() for key, _, value in (h.partition(":") for h in header_lines)
    }
    size = int(headers.get("content-length", "0"))
    if size > _BODY_LIMIT:
        raise ValueError("body too large")
    return method, path, await reader.readexactly(size)
