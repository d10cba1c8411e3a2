"""The HTTP API: what an OpenAI client expects, and /health and /metrics."""

from __future__ import annotations

import time
from dataclasses import dataclass

import orjson
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from chaosflow.engine.core import Engine, QueueFull
from chaosflow.engine.dispatch import metrics
from chaosflow.engine.dispatch.ask import ApiError, Limits, parse
from chaosflow.engine.dispatch.stream import Generation
from chaosflow.gpu.state import VirtualGpuState

MAX_BODY_BYTES = 16 << 20


@dataclass(slots=True)
class Service:
    """What the routes work on."""

    engine: Engine
    limits: Limits
    gpu: VirtualGpuState | None = None
    draining: bool = False
    failure: str = ""
    """Why the step loop ended, if it did: the engine is then unhealthy."""


def build_app(service: Service) -> Starlette:
    """The ASGI app. Building it starts nothing."""
    created = int(time.time())

    async def chat(request: Request) -> Response:
        return await _generate(request, service, chat=True)

    async def completions(request: Request) -> Response:
        return await _generate(request, service, chat=False)

    async def models(_request: Request) -> Response:
        model = {"id": service.limits.model, "object": "model", "created": created, "owned_by": "chaosflow"}
        model["max_model_len"] = service.limits.context_tokens
        return _json({"object": "list", "data": [model]})

    async def one_model(request: Request) -> Response:
        if (name := request.path_params["name"]) != service.limits.model:
            return _error(ApiError(404, f"The model `{name}` does not exist.", code="model_not_found"))
        return _json({"id": name, "object": "model", "created": created, "owned_by": "chaosflow"})

    async def health(_request: Request) -> Response:
        if service.failure or service.draining:
            return _json({"status": "failed" if service.failure else "draining"}, 503)
        return _json({"status": "ok"})

    async def scrape(_request: Request) -> Response:
        body = metrics.render(service.engine, service.gpu)
        return Response(body, media_type="text/plain; version=0.0.4")

    return Starlette(
        routes=[
            Route("/v1/chat/completions", chat, methods=["POST"]),
            Route("/v1/completions", completions, methods=["POST"]),
            Route("/v1/models", models),
            Route("/v1/models/{name:path}", one_model),
            Route("/health", health),
            Route("/metrics", scrape),
        ],
        exception_handlers={404: _not_found, 405: _not_allowed},
    )


async def _generate(request: Request, service: Service, *, chat: bool) -> Response:
    try:
        body = await _read_body(request)
        if service.failure or service.draining:
            raise ApiError(503, service.failure or "the engine is shutting down", code="unavailable")
        ask = parse(body, service.limits, chat=chat)
        return Generation(service.engine, ask, service.limits.model)
    except ApiError as e:
        return _error(e)
    except QueueFull as e:
        return _error(ApiError(503, str(e), code="queue_full"), {"retry-after": "1"})
    except ClientDisconnect:
        return Response(status_code=400)  # nobody reads it


async def _read_body(request: Request) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        parts.append(part)
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise ApiError(413, f"the request's body is longer than {MAX_BODY_BYTES} bytes", code="too_large")
    return b"".join(parts)


def _json(content: object, status: int = 200) -> Response:
    return Response(orjson.dumps(content), status, media_type="application/json")


def _error(error: ApiError, headers: dict[str, str] | None = None) -> Response:
    return Response(error.body(), error.status, headers, media_type="application/json")


async def _not_found(request: Request, _exception: Exception) -> Response:
    return _error(
        ApiError(404, f"Unknown request URL: {request.method} {request.url.path}", code="unknown_url")
    )


async def _not_allowed(request: Request, _exception: Exception) -> Response:
    return _error(ApiError(405, f"Not allowed to {request.method} on {request.url.path}"))
