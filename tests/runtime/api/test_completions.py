"""Text completions."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from tests.runtime.api.fake_engine import FakeEngine, text_script


async def test_an_answer_has_openai_shape(start: Any) -> None:
    engine = FakeEngine(text_script(" world"))
    served = await start(engine)
    answer = await served.openai.completions.create(model="chat", prompt="Hello", max_tokens=9)
    assert answer.object == "text_completion"
    assert answer.id.startswith("cmpl-")
    [choice] = answer.choices
    assert (choice.index, choice.text, choice.finish_reason) == (0, " world", "stop")
    assert choice.logprobs is None
    assert answer.usage.prompt_tokens == 6
    assert answer.usage.completion_tokens == 6
    assert answer.timings["predicted_n"] == 6
    assert engine.generations[0].prompt == (256, *b"Hello")


async def test_prompts_of_text_and_tokens_each_get_n_answers(start: Any) -> None:
    scripts = [text_script(letter) for letter in "abcd"]
    engine = FakeEngine(*scripts)
    served = await start(engine)
    answer = await served.openai.completions.create(
        model="chat", prompt=["Hi", "Ho"], n=2, temperature=0
    )
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    assert [choice.text for choice in answer.choices] == ["a", "b", "c", "d"]
    prompts = [generation.prompt for generation in engine.generations]
    assert prompts == [(256, *b"Hi")] * 2 + [(256, *b"Ho")] * 2
    assert answer.usage.prompt_tokens == 3 + 3
    assert answer.usage.completion_tokens == 4


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [
        ([72, 105], [(72, 105)]),
        ([[72], [105]], [(72,), (105,)]),
        (["H", [105]], [(256, 72), (105,)]),
        ("<s>", [(256, 256)]),
    ],
)
async def test_prompts_may_be_tokens(
    start: Any, prompt: object, prompts: list[tuple[int, ...]]
) -> None:
    engine = FakeEngine()
    served = await start(engine)
    response = await served.http.post("/v1/completions", json={"prompt": prompt})
    assert response.status_code == 200
    assert [generation.prompt for generation in engine.generations] == prompts


@pytest.mark.parametrize("prompt", ["Hello", list(b"Hello")])
async def test_echo_puts_the_prompt_in_front(start: Any, prompt: object) -> None:
    served = await start(FakeEngine(text_script(" world")))
    body = {"prompt": prompt, "echo": True}
    response = await served.http.post("/v1/completions", json=body)
    assert response.json()["choices"][0]["text"] == "Hello world"
    response = await served.http.post("/v1/completions", json=body | {"stream": True})
    lines = [line for line in response.text.splitlines() if line and "[DONE]" not in line]
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines]
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == "Hello world"


async def test_a_stream_joins_to_the_answer(start: Any) -> None:
    served = await start(FakeEngine(text_script("Hé, wörld")))
    stream = await served.openai.completions.create(
        model="chat", prompt="x", stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].text for chunk in chunks[:-1]) == "Hé, wörld"
    reasons = [chunk.choices[0].finish_reason for chunk in chunks[:-1]]
    assert [reason for reason in reasons if reason] == ["stop"]
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == 11


async def test_logprobs_have_offsets_into_the_text(start: Any) -> None:
    served = await start(FakeEngine(text_script("aéb STOP")))
    answer = await served.openai.completions.create(
        model="chat", prompt="x", logprobs=1, stop="STOP"
    )
    [choice] = answer.choices
    assert choice.text == "aéb "
    assert choice.logprobs.text_offset == [0, 1, 1, 2, 3]
    assert choice.logprobs.token_logprobs == [-0.5] * 5
    assert choice.logprobs.tokens[0] == "a"
    assert choice.logprobs.top_logprobs[0] == {"a": -0.5}


async def test_suffix_is_refused_by_a_model_that_cannot_infill(start: Any) -> None:
    served = await start(FakeEngine())
    with pytest.raises(openai.BadRequestError) as caught:
        await served.openai.completions.create(model="chat", prompt="a", suffix="b")
    assert caught.value.param == "suffix"


async def test_suffix_makes_an_infill_prompt(start: Any) -> None:
    engine = FakeEngine(special=(256, 257, 260, 261, 262))
    served = await start(engine)
    await served.openai.completions.create(model="chat", prompt="a", suffix="<s>")
    assert engine.generations[0].prompt == (256, 260, *b"a", 261, *b"<s>", 262)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"prompt": ""}, None),
        ({"prompt": []}, "prompt"),
        ({"prompt": [[]]}, "prompt"),
        ({"prompt": 5}, "prompt"),
        ({"prompt": [1, "a"]}, "prompt"),
        ({"prompt": [9999]}, "prompt"),
        ({"prompt": [-1]}, "prompt"),
        ({}, "prompt"),
        ({"prompt": "a", "max_tokens": 0}, "max_tokens"),
        ({"prompt": "a", "logprobs": 21}, "logprobs"),
        ({"prompt": "a", "best_of": 2}, "best_of"),
        ({"prompt": "a", "echo": True, "logprobs": 1}, None),
        ({"prompt": "a", "stream_options": {"include_usage": True}}, None),
    ],
)
async def test_bad_requests(start: Any, body: dict[str, object], param: str | None) -> None:
    engine = FakeEngine()
    served = await start(engine)
    response = await served.http.post("/v1/completions", json=body)
    if body == {"prompt": ""}:
        assert engine.generations[0].prompt == (256,)  # BOS alone is a prompt
        return
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert (error["param"] or "").split("[")[0] == (param or "")
    assert not engine.generations
