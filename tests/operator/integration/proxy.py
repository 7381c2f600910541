"""Stands between an operator and the API server: notes every request, and can misbehave."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

import aiohttp
from aiohttp import web

from tests.operator.integration.api import Api

_HOP = {"host", "connection", "transfer-encoding", "content-length", "content-encoding"}


@dataclass(frozen=True)
class Request:
    """A request of the operator: `plural` is what it is about, `leases` for the Lease."""

    method: str
    path: str
    query: str

    @property
    def watch(self) -> bool:
        return "watch=true" in self.query

    @property
    def write(self) -> bool:
        """It changes something, the Lease apart."""
        return self.method != "GET" and "/leases" not in self.path


@dataclass
class Proxy:
    """A plain HTTP server on a free port of this machine. Use as a context manager."""

    api: Api
    seen: list[Request] = field(default_factory=list)
    silent: Callable[[Request], bool] = lambda request: False
    """Which watches are accepted and then told nothing."""

    refused: Callable[[Request], int] = lambda request: 0
    """The status with which a request is refused; 0 for none."""

    before: Callable[[Request], None] = lambda request: None
    """Called before a request is passed on; what it raises ends the request unanswered."""

    after: Callable[[Request, int], None] = lambda request, status: None
    """Called with the status when the API server has answered and the operator not yet heard."""

    port: int = 0
    _open: WeakSet[asyncio.Transport] = field(default_factory=WeakSet)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def writes(self) -> list[Request]:
        return [request for request in self.seen if request.write]

    def __enter__(self) -> Proxy:
        started = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        assert started.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def cut(self) -> None:
        """End every connection in the middle of what it says, watches too."""
        self._loop.call_soon_threadsafe(self._cut)

    def _cut(self) -> None:
        for transport in [*self._open]:
            transport.abort()

    def _run(self, started: threading.Event) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve(started))

    async def _serve(self, started: threading.Event) -> None:
        trust = ssl.create_default_context(cafile=self.api.configuration.ssl_ca_cert or None)
        if not self.api.configuration.ssl_ca_cert:
            trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
        connector = aiohttp.TCPConnector(ssl=trust, limit=0)
        async with aiohttp.ClientSession(
            connector=connector, timeout=aiohttp.ClientTimeout(total=None), auto_decompress=False
        ) as self._session:
            app = web.Application(client_max_size=1 << 24)
            app.router.add_route("*", "/{path:.*}", self._handle)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.port = runner.addresses[0][1]
            started.set()
            await self._stop.wait()
            await runner.cleanup()

    async def _handle(self, incoming: web.Request) -> web.StreamResponse:
        try:
            return await self._pass(incoming)
        except (aiohttp.ClientError, OSError):
            # The operator sees what the proxy saw: a connection that breaks.
            if incoming.transport is not None:
                incoming.transport.abort()
            return web.Response(status=502)

    async def _pass(self, incoming: web.Request) -> web.StreamResponse:
        request = Request(incoming.method, incoming.path, incoming.query_string)
        self.seen.append(request)
        self.before(request)
        if incoming.transport is not None:
            self._open.add(incoming.transport)
        if status := self.refused(request):
            said = {"status": "Failure", "code": status, "message": "The proxy refuses."}
            body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, **said}
            return web.json_response(body, status=status)
        if request.watch and self.silent(request):
            return await self._say_nothing(incoming)
        headers = {
            name: value for name, value in incoming.headers.items() if name.lower() not in _HOP
        }
        async with self._session.request(
            incoming.method,
            f"{self.api.configuration.host}{incoming.rel_url}",
            headers=headers,
            data=await incoming.read() or None,
            skip_auto_headers=("Content-Type", "User-Agent"),
        ) as answer:
            self.after(request, answer.status)
            return await self._give(incoming, answer)

    async def _give(
        self, incoming: web.Request, answer: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        kept: dict[str, Any] = {
            name: value for name, value in answer.headers.items() if name.lower() not in _HOP
        }
        response = web.StreamResponse(status=answer.status, headers=kept)
        await response.prepare(incoming)
        async for chunk in answer.content.iter_any():
            await response.write(chunk)
        await response.write_eof()
        return response

    async def _say_nothing(self, incoming: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(incoming)
        await self._stop.wait()
        return response
