"""Against a real HTTP server on this machine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from llama_operator.runtime_client import ask, new_session
from llama_operator.runtime_status import Reading, RuntimeStatus, Unknown, parse_runtime_status
from tests.operator.objects import a_runtime

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def a_server(answer: Answer) -> AsyncIterator[int]:
    app = web.Application()
    app.router.add_get("/status", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield runner.addresses[0][1]
    await runner.cleanup()


async def asked(answer: Answer) -> Reading:
    async with a_server(answer) as port, new_session() as session:
        return await ask(session, "127.0.0.1", port)


async def test_a_status_is_read() -> None:
    body = a_runtime().model_dump_json(by_alias=True)

    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=body)

    assert await asked(answer) == a_runtime()


@pytest.mark.parametrize(
    "response",
    [
        {"text": "not json"},
        {"text": "{}"},
        {"text": '{"version": 2, "state": "Serving"}'},
        {"text": '{"version": 1, "state": "Dancing"}'},
        {"status": 500, "text": '{"version": 1, "state": "Serving"}'},
        {"status": 302, "headers": {"Location": "/elsewhere"}},
    ],
)
async def test_anything_else_is_no_answer(response: dict[str, object]) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(**response)  # type: ignore[arg-type]

    assert await asked(answer) is Unknown.NO_ANSWER


async def test_nobody_there_is_no_answer() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response()

    async with a_server(answer) as port:
        pass
    async with new_session() as session:
        assert await ask(session, "127.0.0.1", port) is Unknown.NO_ANSWER


async def test_one_who_does_not_get_to_the_end_is_no_answer() -> None:
    asked_long_enough = asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        await asked_long_enough.wait()
        return web.Response()

    timeout = aiohttp.ClientTimeout(total=0.05)
    async with a_server(answer) as port, aiohttp.ClientSession(timeout=timeout) as session:
        assert await ask(session, "127.0.0.1", port) is Unknown.NO_ANSWER
        asked_long_enough.set()


def test_what_is_not_known_is_none_and_what_is_new_is_ignored() -> None:
    body = {
        "version": 1,
        "state": "Starting",
        "model": {"loaded": None, "loadProgress": None},
        "numa": {"verdict": None, "cpuNodes": None, "boundCpus": "0-1"},
        "new": {"field": 1},
    }

    reading = parse_runtime_status(json.dumps(body).encode())

    assert isinstance(reading, RuntimeStatus)
    assert reading.model.loaded is None
    assert reading.kv.bytes is None


@pytest.mark.parametrize("part", ["model", "kv", "engine", "numa"])
def test_a_part_that_is_not_known_yet_hides_nothing(part: str) -> None:
    """A runtime without a model has no engine and no cache, but it has a reason."""
    body = {"version": 1, "state": "Failed", "reason": "ModelCorrupt", "message": "why", part: None}

    reading = parse_runtime_status(json.dumps(body).encode())

    assert isinstance(reading, RuntimeStatus)
    assert reading.reason == "ModelCorrupt"
