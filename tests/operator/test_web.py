from __future__ import annotations

import asyncio

import aiohttp
import pytest
from aiohttp import web

from llama_operator.web import health_app, metrics_app, serving


async def get(app: web.Application, path: str) -> tuple[int, str]:
    async with (
        serving(app, 0) as port,
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}{path}") as answer,
    ):
        return answer.status, await answer.text()


@pytest.mark.parametrize(("lag", "status"), [(0.0, 200), (119.0, 200), (121.0, 503)])
async def test_a_watch_that_owes_something_for_long_is_not_healthy(lag: float, status: int) -> None:
    answered, text = await get(health_app(lambda: lag, asyncio.Event()), "/healthz")

    assert answered == status
    assert status == 200 or "for 121 s" in text


async def test_the_operator_is_ready_once_the_watches_began() -> None:
    started = asyncio.Event()
    assert (await get(health_app(lambda: 0.0, started), "/readyz"))[0] == 503

    started.set()
    assert (await get(health_app(lambda: 0.0, started), "/readyz"))[0] == 200


async def test_the_metrics_are_prometheus_text() -> None:
    status, text = await get(metrics_app(), "/metrics")

    assert status == 200
    assert "# TYPE llama_operator_reconciles_total counter" in text
