"""A runtime as the operator sees it: an address whose /status the test sets."""

from __future__ import annotations

import json
import secrets
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from llama_operator.builders.arguments import MANAGEMENT_PORT
from tests.operator.objects import a_runtime


class FakeRuntime:
    """Use as a context manager; `ip` is an address of this machine that nobody else has."""

    def __init__(self) -> None:
        self._status: dict[str, Any] = {}
        self.asked = 0
        runtime = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                runtime.asked += 1
                body = json.dumps(runtime._status).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        numbers = [secrets.randbelow(253) + 1 for _ in range(3)]
        self.ip = ".".join(str(number) for number in (127, *numbers))
        self._server = ThreadingHTTPServer((self.ip, MANAGEMENT_PORT), Handler)

    def says(self, **status: Any) -> None:
        """From now on; keywords as in `a_runtime`."""
        self._status = a_runtime(**status).model_dump(mode="json", by_alias=True)

    def __enter__(self) -> FakeRuntime:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
