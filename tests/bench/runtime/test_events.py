from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.runtime import events
from tests.bench.runtime.load import BenchError

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def event(content: str | None = None, finish: str | None = None, **more: Any) -> bytes:
    choice = {"delta": {"content": content} if content else {}, "finish_reason": finish}
    body = json.dumps({"choices": [choice], **more})
    data = f"data: {body}\n\n".encode()
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def usage(completion: int) -> bytes:
    counts = {
        "prompt_tokens": 30,
        "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": 20},
    }
    return b"data: " + json.dumps({"choices": [], "usage": counts}).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n0\r\n\r\n"


def test_times_are_those_of_events_with_text() -> None:
    streamed = events.parse(
        [
            (1.0, HEAD + event()),
            (2.0, event("The ") + event("sea")),
            (3.0, event("!")),
            (4.0, event(finish="length") + usage(3) + DONE),
        ],
        max_tokens=3,
    )
    assert streamed.times == (2.0, 2.0, 3.0)
    assert streamed.text == "The sea!"
    assert (streamed.generated, streamed.prompt_tokens, streamed.cached_tokens) == (3, 30, 20)


def test_usage_counts_tokens_that_made_no_text() -> None:
    received = [(1.0, HEAD + event("a") + event(finish="stop") + usage(5) + DONE)]
    assert events.parse(received, max_tokens=9).generated == 5


def test_without_usage_an_answer_ended_by_its_length_has_all_its_tokens() -> None:
    received = [(1.0, HEAD + event("a") + event(finish="length") + DONE)]
    assert events.parse(received, max_tokens=9).generated == 9


@given(st.lists(st.integers(1, 400), max_size=8))
def test_pieces_may_be_cut_anywhere(cuts: list[int]) -> None:
    whole = HEAD + event("The ") + event("sea ☂") + event(finish="length") + usage(2) + DONE
    received: events.Received = []
    for cut in cuts:
        received.append((float(len(received)), whole[:cut]))
        whole = whole[cut:]
    received.append((99.0, whole))
    assert events.parse(received, max_tokens=2).text == "The sea ☂"


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (b"HTTP/1.1 429 Too Many Requests\r\n\r\n{}", "429 Too Many Requests"),
        (b"", "answered"),
        (HEAD + event("a"), "no end"),
        (HEAD + event(finish="stop"), "no tokens"),
        (HEAD + event("a") + event(finish="stop"), "no tokens"),
        (HEAD + b'data: {"error": {"message": "decode failed"}}\n\n', "decode failed"),
    ],
)
def test_what_is_not_a_finished_stream_is_refused(response: bytes, message: str) -> None:
    with pytest.raises(BenchError, match=message):
        events.parse([(1.0, response)], max_tokens=8)
