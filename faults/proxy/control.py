"""The control API, that of Toxiproxy 2: JSON over HTTP/1.1, on a Unix socket and, if asked, on a TCP port.

GET         /version                        GET, POST                 /proxies/{p}/toxics
GET, POST   /proxies                        GET, POST, PATCH, DELETE  /proxies/{p}/toxics/{t}
POST        /populate                       GET, POST, PATCH, DELETE  /proxies/{p}
POST        /reset   (enables all proxies, removes all toxics)

Beyond Toxiproxy, a toxic and a proxy carry ``stats``: what they did, measured. Unknown attributes are refused.
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
from chaosflow.faults.proxy.apihttp import Answer, serve
from chaosflow.faults.proxy.server import Proxies, Proxy
from chaosflow.faults.proxy.toxic import Toxic
from chaosflow.faults.proxy.toxics import toxic_types


class ApiError(Exception):
    """An answer other than success."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Control:
    """Answers requests on ``proxies``. ``serve`` handles one connection, keep-alive included."""

    def __init__(self, proxies: Proxies) -> None:
        self._proxies = proxies

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await serve(reader, writer, self.answer)

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
            case ["populate"]:
                return await _by_method(method, POST=lambda: self._populate(_json(body)))
            case ["proxies"]:
                return await _by_method(method, GET=self._list, POST=lambda: self._create(_object(body)))
            case ["proxies", name]:
                proxy = self._proxy(name)
                return await _by_method(
                    method,
                    GET=lambda: _now(proxy.to_json()),
                    POST=lambda: _update_proxy(proxy, _object(body)),
                    PATCH=lambda: _update_proxy(proxy, _object(body)),
                    DELETE=lambda: self._delete(proxy),
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
                    PATCH=lambda: _update_toxic(proxy, toxic, _object(body)),
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
        name, listen, upstream, enabled = _proxy_of(given, "")
        proxy = await self._proxies.create(name, listen, upstream, enabled=enabled)
        return 201, proxy.to_json()

    async def _populate(self, given: Any) -> Answer:
        """Nothing is changed when one of the list cannot be understood."""
        if not isinstance(given, list) or not all(isinstance(item, dict) for item in given):
            raise ApiError(400, "bad request body: expected a JSON list of proxies")
        wanted = [_proxy_of(item, f" at proxy {i}") for i, item in enumerate(given, 1)]
        made: list[Any] = []
        try:
            for name, listen, upstream, enabled in wanted:
                made.append((await self._proxies.populate(name, listen, upstream, enabled=enabled)).to_json())
        except UsageError as e:
            return 500, {"error": str(e), "status": 500, "proxies": made}
        return 201, {"proxies": made}

    async def _delete(self, proxy: Proxy) -> Answer:
        await self._proxies.delete(proxy.name)
        return 204, None

    async def _reset(self) -> Answer:
        await self._proxies.reset()
        return 204, None


def _proxy_of(given: dict[str, Any], where: str) -> tuple[str, Address, Address, bool]:
    """Name, listen, upstream, enabled."""
    missing = [key for key in ("name", "upstream") if not given.get(key)]
    if missing:
        raise ApiError(400, f"missing required field: {', '.join(missing)}{where}")
    listen = Address.parse(str(given.get("listen") or "127.0.0.1:0"))
    return (
        str(given["name"]),
        listen,
        Address.parse(str(given["upstream"])),
        _bool(given.get("enabled", True)),
    )


async def _update_proxy(proxy: Proxy, given: dict[str, Any]) -> Answer:
    """``listen``, ``upstream`` and ``enabled``; what is not given stays."""
    if given.get("name", proxy.name) != proxy.name:
        raise ApiError(400, "the name of a proxy cannot change; delete it and create another")
    listen = Address.parse(str(given["listen"])) if given.get("listen") else proxy.listen
    upstream = Address.parse(str(given["upstream"])) if given.get("upstream") else proxy.upstream
    await proxy.change(listen, upstream, enabled=_bool(given.get("enabled", proxy.enabled)))
    return 200, proxy.to_json()


def _bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ApiError(400, f"bad request body: enabled is {value!r}, expected true or false")
    return value


async def _add_toxic(proxy: Proxy, given: dict[str, Any]) -> Answer:
    toxic = _make(given)
    proxy.add(toxic)
    return 200, toxic.to_json()


async def _update_toxic(proxy: Proxy, toxic: Toxic, given: dict[str, Any]) -> Answer:
    attributes = {**toxic.attributes.model_dump(), **(given.pop("attributes", None) or {})}
    if given.pop("type", toxic.type) != toxic.type:
        raise ApiError(400, "the type of a toxic cannot change; delete it and add another")
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
    made = {key: value for key, value in given.items() if value not in ("", None)}
    stream = made.get("stream") or known[kind].model_fields["stream"].default
    return known[kind].model_validate({"name": f"{kind}_{stream}", "attributes": {}, **made})


def _json(body: bytes) -> Any:
    try:
        return json.loads(body or b"{}")
    except ValueError as e:
        raise ApiError(400, f"bad request body: {e}") from e


def _object(body: bytes) -> dict[str, Any]:
    value = _json(body)
    if not isinstance(value, dict):
        raise ApiError(400, "bad request body: expected a JSON object")
    return value


async def _now(value: Any) -> Answer:
    return 200, value


async def _by_method(method: str, **handlers: Callable[[], Awaitable[Answer]]) -> Answer:
    if method not in handlers:
        raise ApiError(405, f"{method}: use {' or '.join(handlers)}")
    return await handlers[method]()
