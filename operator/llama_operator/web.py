"""The operator's own small servers: /healthz for the kubelet and /metrics for Prometheus."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from llama_operator.metrics import REGISTRY

LONGEST_LAG_SECONDS = 120.0


def health_app(
    lag: Callable[[], float], told: Callable[[], bool], dead: Callable[[], str | None]
) -> web.Application:
    """What the kubelet asks.

    `/healthz` is 200 while the watches tell what is known to have changed and none is dead,
    else 503.
    `/readyz` is 200 once the watches have told of everything that there is, else 503.
    """

    async def healthz(request: web.Request) -> web.Response:
        seconds = lag()
        if seconds > LONGEST_LAG_SECONDS:
            text = f"The watch has not told of a change for {seconds:.0f} s: restart the operator."
            return web.Response(status=503, text=text)
        if (path := dead()) is not None:
            text = f"The watch of {path} is dead, and the API server answers: restart the operator."
            return web.Response(status=503, text=text)
        return web.Response(text="ok")

    async def readyz(request: web.Request) -> web.Response:
        if not told():
            return web.Response(status=503, text="The watches have not told of everything yet.")
        return web.Response(text="ok")

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    return app


def metrics_app() -> web.Application:
    """`/metrics` in Prometheus' text format."""

    async def metrics(request: web.Request) -> web.Response:
        return web.Response(
            body=generate_latest(REGISTRY), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    return app


@asynccontextmanager
async def serving(app: web.Application, port: int) -> AsyncIterator[int]:
    """Serve the application on all addresses; the port that it got, IPv4's where there is one.

    Raises OSError when the port is taken.
    """
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, None, port)
        await site.start()
        # With port 0 each protocol gets a port of its own: IPv4's pair sorts before IPv6's four.
        yield sorted(runner.addresses, key=len)[0][1]
    finally:
        await runner.cleanup()
