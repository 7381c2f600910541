"""The two HTTP servers of the process."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

BACKLOG = 2048
KEEP_ALIVE_SECONDS = 75  # above that of common proxies, so that they close first


class Server(uvicorn.Server):
    """Signals are the process's business: uvicorn would cut streams at the first one."""

    def close_after_answers(self) -> None:
        """Connections that are being answered close then; those that began with keep-alive, too."""
        for connection in list(self.server_state.connections):
            cycle = getattr(connection, "cycle", None)
            if cycle is not None and not cycle.response_complete:
                connection.shutdown()

    def close_idle(self) -> None:
        """Every connection closes, those that are being answered once they were."""
        for connection in list(self.server_state.connections):
            connection.shutdown()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listen(host: str, port: int) -> socket.socket:
    """A bound socket; raises OSError. Port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound


def create_server(app: ASGIApp, *, graceful_seconds: int) -> Server:
    """``graceful_seconds``: how long a stop waits for answers that are being sent."""
    return Server(
        uvicorn.Config(
            app,
            http="h11",
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=graceful_seconds,
        )
    )


class ServerThread:
    """A server with a thread and an event loop of its own: it answers whatever others do."""

    def __init__(self, app: ASGIApp, bound: socket.socket) -> None:
        self._server = create_server(app, graceful_seconds=1)
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._server.serve([bound])), name="management", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()
