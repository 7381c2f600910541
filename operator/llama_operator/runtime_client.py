"""Asks a runtime for its status. Reads only, and never through the API server."""

from __future__ import annotations

import aiohttp

from llama_operator.builders.arguments import MANAGEMENT_PORT
from llama_operator.metrics import RUNTIME_POLLS
from llama_operator.runtime_status import Reading, Unknown, parse_runtime_status

ANSWER_SECONDS = 5.0
LARGEST_ANSWER = 1 << 20


def new_session() -> aiohttp.ClientSession:
    """A session for many pods, each asked rarely: no connection is kept, no proxy is used."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=64, force_close=True),
        timeout=aiohttp.ClientTimeout(total=ANSWER_SECONDS),
        trust_env=False,
    )


async def ask(session: aiohttp.ClientSession, ip: str, port: int = MANAGEMENT_PORT) -> Reading:
    """The status of the runtime at an address; NO_ANSWER when there is none to read."""
    host = f"[{ip}]" if ":" in ip else ip
    reading: Reading = Unknown.NO_ANSWER
    try:
        async with session.get(f"http://{host}:{port}/status", allow_redirects=False) as answer:
            if answer.status == 200:
                reading = parse_runtime_status(await answer.content.read(LARGEST_ANSWER))
    except (aiohttp.ClientError, TimeoutError, OSError):
        reading = Unknown.NO_ANSWER
    RUNTIME_POLLS.labels(result="silent" if reading is Unknown.NO_ANSWER else "answered").inc()
    return reading
