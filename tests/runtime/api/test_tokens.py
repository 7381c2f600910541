"""/tokenize and /detokenize."""

from __future__ import annotations

from typing import Any

from tests.runtime.api.fake_engine import FakeEngine


async def test_text_becomes_tokens_and_text_again(start: Any) -> None:
    served = await start(FakeEngine())
    response = await served.http.post("/tokenize", json={"content": "é<s>"})
    tokens = response.json()["tokens"]
    assert tokens == [*"é".encode(), 256]
    response = await served.http.post("/detokenize", json={"tokens": tokens})
    assert response.json() == {"content": "é<s>"}


async def test_special_tokens_are_asked_for(start: Any) -> None:
    served = await start(FakeEngine())
    body = {"content": "<s>", "add_special": True, "parse_special": False}
    response = await served.http.post("/tokenize", json=body)
    assert response.json() == {"tokens": [256, *b"<s>"]}


async def test_pieces_that_are_no_text_are_bytes(start: Any) -> None:
    served = await start(FakeEngine())
    body = {"content": "aé", "with_pieces": True}
    response = await served.http.post("/tokenize", json=body)
    first, second, third = "aé".encode()
    assert response.json()["tokens"] == [
        {"id": first, "piece": "a"},
        {"id": second, "piece": [second]},
        {"id": third, "piece": [third]},
    ]


async def test_unknown_tokens_are_refused(start: Any) -> None:
    served = await start(FakeEngine())
    for tokens in ([263], [-1], ["a"]):
        response = await served.http.post("/detokenize", json={"tokens": tokens})
        assert response.status_code == 400
