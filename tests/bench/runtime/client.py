"""The load generator: a job on standard input, the answers on standard output.

It shares the machine's CPUs with the server it measures, so it only notes what came when,
and reads it after an answer has ended.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import asdict
from typing import Any

from tests.bench.runtime import events
from tests.bench.runtime.load import Answer, BenchError, Client, Job, Step, job_from


class _Exchange(asyncio.Protocol):
    """Sends one request and notes every piece of its response until the server closes."""

    def __init__(self, request: bytes) -> None:
        self.request = request
        self.received: events.Received = []
        self.closed = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.started = time.monotonic()
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self.received.append((time.monotonic(), data))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)


class _Conversation:
    """The messages of one chat so far."""

    def __init__(self, system: str | None) -> None:
        self.messages = [{"role": "system", "content": system}] if system else []

    def ask(self, message: str) -> list[dict[str, str]]:
        self.messages.append({"role": "user", "content": message})
        return self.messages

    def hear(self, text: str) -> None:
        self.messages.append({"role": "assistant", "content": text})


async def run(job: Job) -> list[Answer]:
    """Run all clients; those in the background end with the last of the others."""
    answers: list[Answer] = []
    async with asyncio.TaskGroup() as foreground:
        background = []
        for client in job.clients:
            if client.background:
                background.append(asyncio.create_task(_run_client(job, client, answers)))
            else:
                foreground.create_task(_run_client(job, client, answers))
    for task in background:
        if task.done():
            task.result()
            raise BenchError("A background client ran out of steps: give it more.")
        task.cancel()
    await asyncio.gather(*background, return_exceptions=True)
    return answers


async def _run_client(job: Job, client: Client, answers: list[Answer]) -> None:
    conversations: dict[str, _Conversation] = {}
    await asyncio.sleep(client.delay)
    for index, step in enumerate(client.steps):
        if index:
            await asyncio.sleep(client.think)
        conversation = conversations.setdefault(step.chat, _Conversation(step.system))
        request = _request(job, client, step, conversation.ask(step.message))
        exchange = await _exchange(job.port, client.address, request)
        streamed = events.parse(exchange.received, step.max_tokens)
        conversation.hear(streamed.text)
        answers.append(
            Answer(client=client.name, chat=step.chat, started=exchange.started, **asdict(streamed))
        )


async def _exchange(port: int, address: str, request: bytes) -> _Exchange:
    loop = asyncio.get_running_loop()
    _, exchange = await loop.create_connection(
        lambda: _Exchange(request), "127.0.0.1", port, local_addr=(address, 0)
    )
    try:
        await exchange.closed
    finally:
        exchange.transport.abort()
    return exchange


def _request(job: Job, client: Client, step: Step, messages: list[dict[str, str]]) -> bytes:
    content: dict[str, Any] = {
        "model": "bench",
        "messages": messages,
        "max_tokens": step.max_tokens,
        "temperature": 0,
        "stream": True,
        "user": client.name,
        **job.extra,
    }
    body = json.dumps(content).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{job.port}\r\n"
        "Content-Type: application/json\r\nConnection: close\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _main() -> list[Answer]:
    job = job_from(json.load(sys.stdin))
    async with asyncio.timeout(job.timeout):
        return await run(job)


if __name__ == "__main__":
    try:
        print(json.dumps([asdict(answer) for answer in asyncio.run(_main())]))
    except* BenchError as group:
        raise SystemExit(str(group.exceptions[0])) from None
    except* TimeoutError:
        raise SystemExit("The clients were not answered within the job's time.") from None
    except* OSError as group:
        raise SystemExit(f"A client could not reach the server: {group.exceptions[0]}.") from None
