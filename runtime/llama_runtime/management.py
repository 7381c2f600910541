"""The read-only port for probes, status and metrics; it runs in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from llama_runtime.lifecycle import Lifecycle, is_stuck
from llama_runtime.status import Status, heartbeat_age

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def create_management_app(
    lifecycle: Callable[[], Lifecycle],
    status: Callable[[], dict[str, Any]],
    metrics: Callable[[], bytes],
) -> Starlette:
    """The arguments are called from the management thread and must not wait."""

    async def healthz(request: Request) -> Response:
        return PlainTextResponse(*health(status()))

    async def readyz(request: Request) -> Response:
        return PlainTextResponse(*readiness(lifecycle()))

    async def startupz(request: Request) -> Response:
        return PlainTextResponse(*startup(lifecycle()))

    async def get_status(request: Request) -> Response:
        return JSONResponse(status())

    async def get_metrics(request: Request) -> Response:
        return Response(metrics(), media_type=METRICS_TYPE)

    return Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/startupz", startupz),
            Route("/status", get_status),
            Route("/metrics", get_metrics),
        ]
    )


def health(status: Status) -> tuple[str, int]:
    age = heartbeat_age(status)
    if is_stuck(age):
        return f"The engine thread has not moved for {age:.0f} s: restart the process.\n", 503
    return "ok\n", 200


def readiness(lifecycle: Lifecycle) -> tuple[str, int]:
    if lifecycle.ready:
        return "ok\n", 200
    return f"{lifecycle.reason or lifecycle.state}: {lifecycle.message}\n", 503


def startup(lifecycle: Lifecycle) -> tuple[str, int]:
    if lifecycle.loaded_once:
        return "ok\n", 200
    return f"{lifecycle.reason or lifecycle.state}: {lifecycle.message}\n", 503
