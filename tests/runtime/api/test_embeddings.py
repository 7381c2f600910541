"""Embeddings."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from tests.runtime.api.fake_engine import FakeEngine


def vector(tokens: tuple[int, ...]) -> list[float]:
    return [0.5, -0.25, float(len(tokens))]


async def test_each_input_gets_a_vector(start: Any) -> None:
    served = await start(FakeEngine(embedding=vector))
    answer = await served.openai.embeddings.create(
        model="chat", input=["a", "bc"], encoding_format="float"
    )
    assert answer.object == "list"
    assert [item.index for item in answer.data] == [0, 1]
    assert [item.embedding for item in answer.data] == [[0.5, -0.25, 2.0], [0.5, -0.25, 3.0]]
    assert (answer.usage.prompt_tokens, answer.usage.total_tokens) == (5, 5)


async def test_base64_is_what_openai_client_reads_by_default(start: Any) -> None:
    served = await start(FakeEngine(embedding=vector))
    answer = await served.openai.embeddings.create(model="chat", input=[72, 105])
    assert answer.data[0].embedding == [0.5, -0.25, 2.0]


async def test_special_tokens_in_the_input_are_text(start: Any) -> None:
    served = await start(FakeEngine(embedding=vector))
    answer = await served.openai.embeddings.create(model="chat", input="<s>")
    assert answer.usage.prompt_tokens == 1 + 3


async def test_a_model_without_embeddings_refuses(start: Any) -> None:
    served = await start(FakeEngine())
    with pytest.raises(openai.BadRequestError, match="embedding model"):
        await served.openai.embeddings.create(model="chat", input="a")


@pytest.mark.parametrize(
    "body", [{"input": []}, {"input": "a", "dimensions": 2}, {"input": [9999]}, {"input": {}}]
)
async def test_bad_requests(start: Any, body: dict[str, object]) -> None:
    served = await start(FakeEngine(embedding=vector))
    response = await served.http.post("/v1/embeddings", json=body)
    assert response.status_code == 400
    assert "error" in response.json()
