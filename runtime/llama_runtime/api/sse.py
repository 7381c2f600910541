"""Server-sent events, and noticing that a client has gone."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import aclosing
from typing import TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from llama_runtime.api.errors import as_api_error, error_body
from llama_runtime.api.running import Run

Result = TypeVar("Result")
Event = Mapping[str, object]

log = logging.getLogger(__name__)


class EventStream(Response):
    """Sends each event as ``data: JSON``, then ``data: [DONE]``.

    A failure after the start is an event with ``error``, and then the stream ends
    without [DONE]. A client that goes away cancels ``run``.
    """

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[Event, None], run: Run) -> None:
        super().__init__(headers={"cache-control": "no-cache", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._events = events
        self._run = run

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._run, aclosing(self._events):
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await until_disconnect(receive, self._send_events(send))

    async def _send_events(self, send: Send) -> None:
        try:
            async for event in self._events:
                await _send(send, _data(event))
            await _send(send, b"data: [DONE]\n\n", more=False)
        except Exception as error:
            log.warning("A stream ended with an error", exc_info=error)
            await self._run.aclose()  # before the client hears of it and asks again
            await _send(send, _data(error_body(as_api_error(error))), more=False)


async def until_disconnect(receive: Receive, work: Awaitable[Result]) -> Result:
    """The result of ``work``; cancels it and raises ClientDisconnect when the client goes."""
    working = asyncio.ensure_future(work)
    watching = asyncio.create_task(_disconnected(receive))
    try:
        await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        for task in (working, watching):
            task.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)


async def answer(request: Request, work: Awaitable[Result]) -> Result:
    """The same for a request whose body was read."""
    return await until_disconnect(request.receive, work)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send(send: Send, body: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})


def _data(event: Event) -> bytes:
    text = json.dumps(event, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return f"data: {text}\n\n".encode()
