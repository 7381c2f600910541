from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

import pytest

from tests.bench.runtime import client, load
from tests.bench.runtime.load import BenchError, Client, Job, Step

Respond = Callable[[dict[str, Any]], bytes]


def answered(body: dict[str, Any]) -> bytes:
    """A finished stream that counts the messages it was asked with."""
    text = f"{len(body['messages'])} messages"
    events = [{"choices": [{"delta": {"content": text}, "finish_reason": "length"}]}]
    lines = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    return f"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{lines}data: [DONE]\n\n".encode()


@asynccontextmanager
async def server(respond: Respond) -> AsyncIterator[tuple[int, list[dict[str, Any]]]]:
    """A server that closes after each response; yields its port and the bodies it got."""
    bodies: list[dict[str, Any]] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        body = json.loads(await reader.readexactly(length))
        bodies.append({**body, "from": writer.get_extra_info("peername")[0]})
        writer.write(respond(body))
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as listening:
        yield listening.sockets[0].getsockname()[1], bodies


async def test_a_chat_sends_its_earlier_answers_and_other_chats_do_not() -> None:
    steps = (
        Step("a", "first", 4, system="be brief"),
        Step("b", "other", 4),
        Step("a", "second", 4, system="be brief"),
    )
    async with server(answered) as (port, bodies):
        answers = await client.run(
            Job(port, (Client("one", steps, address="127.0.0.2"),), extra={"ignore_eos": True})
        )
    assert [answer.text for answer in answers] == ["2 messages", "1 messages", "4 messages"]
    assert [message["content"] for message in bodies[2]["messages"]] == [
        "be brief", "first", "2 messages", "second",
    ]  # fmt: skip
    assert [answer.generated for answer in answers] == [4, 4, 4]
    assert {body["user"] for body in bodies} == {"one"}
    assert {body["from"] for body in bodies} == {"127.0.0.2"}
    assert all(body["ignore_eos"] and body["stream"] for body in bodies)
    assert all(answer.started <= answer.times[0] for answer in answers)


async def test_a_background_client_ends_with_the_others() -> None:
    many = tuple(Step(str(number), "again", 4) for number in range(100_000))
    async with server(answered) as (port, _):
        answers = await client.run(
            Job(port, (Client("flood", many, background=True), Client("one", many[:3], think=0.01)))
        )
    counts = [answer.client for answer in answers]
    assert counts.count("one") == 3
    assert 0 < counts.count("flood") < len(many)


async def test_a_background_client_that_runs_dry_is_an_error() -> None:
    step = Step("", "once", 4)
    clients = (Client("flood", (step,), background=True), Client("one", (step,), delay=0.2))
    async with server(answered) as (port, _):
        with pytest.raises(BenchError, match="more"):
            await client.run(Job(port, clients))


async def test_one_process_runs_a_job_and_says_what_went_wrong() -> None:
    step = Step("", "hello", 4)
    job = Job(0, (Client("one", (step,)),))
    async with server(answered) as (port, _):
        (answer,) = await asyncio.to_thread(load.run, Job(port, job.clients))
    assert (answer.client, answer.generated, len(answer.times)) == ("one", 4, 1)
    async with server(lambda body: b"HTTP/1.1 503 Loading\r\n\r\n") as (port, _):
        with pytest.raises(BenchError, match="503 Loading"):
            await asyncio.to_thread(load.run, Job(port, job.clients))


def test_a_job_survives_being_sent() -> None:
    job = Job(1, (Client("a", (Step("c", "m", 2, "s"),), delay=1.0),), {"x": [1]}, timeout=9.0)
    assert load.job_from(json.loads(json.dumps(asdict(job)))) == job
