"""What happens around every request: counting, errors, keys."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Protocol

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from llama_runtime.api.errors import as_api_error, error_response
from llama_runtime.api.keys import ApiKeys
from llama_runtime.generation import Timings

CLIENT_CLOSED_REQUEST = 499  # nginx's code: nobody is there to get an answer

log = logging.getLogger(__name__)


class Observer(Protocol):
    """Who counts what the API does."""

    def request_started(self) -> None: ...

    def request_ended(self, path: str, method: str, status: int, seconds: float) -> None: ...

    def generated(self, timings: Timings) -> None: ...


class Observed:
    """Counts and logs each request; tells clients to go elsewhere while the server drains."""

    def __init__(self, app: ASGIApp, observer: Observer, is_draining: Callable[[], bool]) -> None:
        self._app = app
        self._observer = observer
        self._is_draining = is_draining

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        status = CLIENT_CLOSED_REQUEST

        async def observed_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if self._is_draining():
                    MutableHeaders(scope=message)["connection"] = "close"
            await send(message)

        started = time.monotonic()
        self._observer.request_started()
        try:
            await self._app(scope, receive, observed_send)
        finally:
            seconds = time.monotonic() - started
            path = getattr(scope.get("route"), "path", "other")
            self._observer.request_ended(path, scope["method"], status, seconds)
            log.info(
                "Answered",
                extra={
                    "method": scope["method"],
                    "path": path,
                    "status": status,
                    "seconds": round(seconds, 3),
                },
            )


class Answered:
    """Turns everything that is raised into an answer in OpenAI's shape."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def watched_send(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, watched_send)
        except ClientDisconnect:
            return
        except Exception as error:
            answer = as_api_error(error)
            if answer.status == 500:
                log.error("A request failed", exc_info=error)
            if started:
                raise
            await error_response(answer)(scope, receive, send)


class Authenticated:
    """Lets in who has a key, and notes whose request it is.

    Without keys that is the address it comes from. Headers that name another one are not
    believed: whoever writes them could be anybody.
    """

    def __init__(self, app: ASGIApp, keys: ApiKeys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            authorization = Headers(scope=scope).get("authorization")
            self._keys.check(authorization)
            address, _ = scope.get("client") or ("", 0)
            scope.setdefault("state", {})["who"] = self._keys.name_of(authorization) or address
        await self._app(scope, receive, send)
