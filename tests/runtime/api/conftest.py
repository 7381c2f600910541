"""The API on a real port, with scripted or real engines behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from openai import AsyncOpenAI, DefaultAsyncHttpxClient
from prometheus_client import CollectorRegistry

from llama_runtime.api.app import create_app
from llama_runtime.api.keys import ApiKeys
from llama_runtime.api.serving import ServedModel
from llama_runtime.generation import Engine, NotServing
from llama_runtime.metrics import RequestMetrics
from llama_runtime.servers import create_server, listen

ALIAS = "chat"


@dataclass
class Served:
    """A running API: raw HTTP by ``http``, OpenAI's client by ``openai``."""

    url: str
    http: httpx.AsyncClient
    openai: AsyncOpenAI
    metrics: RequestMetrics
    registry: CollectorRegistry
    draining: asyncio.Event = field(default_factory=asyncio.Event)
    unavailable: NotServing | None = None


def openai_client(url: str, api_key: str = "none") -> AsyncOpenAI:
    """OpenAI's client for a plain HTTP server: reading the system's certificates takes long."""
    return AsyncOpenAI(
        base_url=f"{url}/v1",
        api_key=api_key,
        max_retries=0,
        http_client=DefaultAsyncHttpxClient(verify=False, timeout=60),
    )


@asynccontextmanager
async def serve(engine: Engine, key_file: Path | None = None) -> AsyncIterator[Served]:
    model = ServedModel.of(ALIAS, engine)
    registry = CollectorRegistry()
    metrics = RequestMetrics(registry)
    bound = listen("127.0.0.1", 0)
    url = f"http://127.0.0.1:{bound.getsockname()[1]}"
    async with (
        httpx.AsyncClient(base_url=url, timeout=60, verify=False) as http,
        openai_client(url) as client,
    ):
        served = Served(url, http, client, metrics, registry)

        def source() -> ServedModel:
            if served.unavailable is not None:
                raise served.unavailable
            return model

        app = create_app(
            source, keys=ApiKeys(key_file), observer=metrics, is_draining=served.draining.is_set
        )
        server = create_server(app, graceful_seconds=5)
        running = asyncio.create_task(server.serve([bound]))
        try:
            yield served
        finally:
            await http.aclose()
            await client.close()
            server.should_exit = True
            await running


@pytest.fixture
async def start() -> AsyncIterator[Callable[..., object]]:
    """Starts an API in front of an engine; it stops with the test."""
    async with AsyncExitStack() as stack:

        async def start(engine: Engine, key_file: Path | None = None) -> Served:
            return await stack.enter_async_context(serve(engine, key_file))

        yield start
