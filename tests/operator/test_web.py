from __future__ import annotations

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
    answered, text = await get(health_app(lambda: lag, lambda: True, lambda: None), "/healthz")

    assert answered == status
    assert status == 200 or "for 121 s" in text


async def test_a_dead_watch_is_not_healthy_and_named() -> None:
    app = health_app(lambda: 0.0, lambda: True, lambda: "/api/v1/pods")

    status, text = await get(app, "/healthz")

    assert status == 503
    assert "/api/v1/pods" in text


@pytest.mark.parametrize(("told", "status"), [(False, 503), (True, 200)])
async def test_the_operator_is_ready_once_the_watches_told_of_everything(
    told: bool, status: int
) -> None:
    assert (await get(health_app(lambda: 0.0, lambda: told, lambda: None), "/readyz"))[0] == status


async def test_the_metrics_are_prometheus_text() -> None:
    status, text = await get(metrics_app(), "/metrics")

    assert status == 200
    assert "# TYPE llama_operator_reconciles_total counter" in text
