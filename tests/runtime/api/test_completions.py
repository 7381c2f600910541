"""Text completions."""

from __future__ import annotations

import json
from typing import Any

import httpx
import openai
import pytest

from tests.runtime.api.fake_engine import FakeEngine, text_script

ECHO: dict[str, Any] = {"echo": True, "logprobs": 1}


def events_of(response: httpx.Response) -> list[Any]:
    lines = [line for line in response.text.splitlines() if line and "[DONE]" not in line]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


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
    chunks = events_of(response)
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


async def test_an_echo_with_logprobs_scores_the_prompt(start: Any) -> None:
    engine = FakeEngine(text_script("é!"))
    served = await start(engine)
    answer = await served.openai.completions.create(model="chat", prompt="Hí", **ECHO)
    [choice] = answer.choices
    assert choice.text == "Híé!"
    logprobs = choice.logprobs
    # BOS is a token of the prompt, but not of its text
    assert logprobs.tokens == ["<s>", "H", *["\ufffd"] * 4, "!"]
    assert logprobs.token_logprobs == [None, -0.25, -0.25, -0.25, -0.5, -0.5, -0.5]
    assert logprobs.top_logprobs[:2] == [None, {"H": -0.25, "A": -0.125}]
    assert logprobs.text_offset == [0, 0, 1, 1, 2, 2, 3]
    assert engine.generations[0].score_prompt
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (4, 3)


async def test_a_prompt_of_tokens_has_its_offsets_too(start: Any) -> None:
    served = await start(FakeEngine(text_script("!")))
    answer = await served.openai.completions.create(model="chat", prompt=[256, 72, 0xC3], **ECHO)
    [choice] = answer.choices
    assert choice.text == "<s>H\ufffd!"
    assert choice.logprobs.text_offset == [0, 3, 4, 5]
    for text, offset in zip(choice.logprobs.tokens, choice.logprobs.text_offset, strict=True):
        assert choice.text.startswith(text, offset)


async def test_each_answer_to_each_prompt_is_scored(start: Any) -> None:
    served = await start(FakeEngine(text_script("!")))
    answer = await served.openai.completions.create(model="chat", prompt=["a", "bc"], n=2, **ECHO)
    assert [choice.text for choice in answer.choices] == ["a!", "a!", "bc!", "bc!"]
    offsets = [choice.logprobs.text_offset for choice in answer.choices]
    assert offsets == [[0, 0, 1]] * 2 + [[0, 0, 1, 2]] * 2


@pytest.mark.parametrize("max_tokens", [0, 2])
async def test_a_stream_begins_with_the_scored_prompt(start: Any, max_tokens: int) -> None:
    served = await start(FakeEngine(text_script("!?")))
    body = {"prompt": ["ab", "c"], "stream": True, "max_tokens": max_tokens, **ECHO}
    chunks = [
        chunk["choices"][0]
        for chunk in events_of(await served.http.post("/v1/completions", json=body))
    ]
    for index, prompt in enumerate(["ab", "c"]):
        first, *rest = [chunk for chunk in chunks if chunk["index"] == index]
        assert (first["text"], first["finish_reason"]) == (prompt, None)
        assert first["logprobs"]["token_logprobs"] == [None] + [-0.25] * len(prompt)
        assert first["logprobs"]["text_offset"] == [0, *range(len(prompt))]
        offsets = [offset for chunk in rest for offset in chunk["logprobs"]["text_offset"]]
        assert offsets == [len(prompt) + place for place in range(max_tokens)]
        assert rest[-1]["finish_reason"] == ("stop" if max_tokens else "length")


@pytest.mark.parametrize("logprobs", [None, 0])
async def test_the_prompt_alone_comes_back_without_tokens_to_generate(
    start: Any, logprobs: int | None
) -> None:
    engine = FakeEngine()
    served = await start(engine)
    answer = await served.openai.completions.create(
        model="chat", prompt="ab", max_tokens=0, echo=True, logprobs=logprobs
    )
    [choice] = answer.choices
    assert (choice.text, choice.finish_reason) == ("ab", "length")
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (3, 0)
    assert engine.generations[0].score_prompt == (logprobs is not None)
    if logprobs is None:
        assert choice.logprobs is None
    else:
        assert choice.logprobs.top_logprobs == [None, {"a": -0.25}, {"b": -0.25}]


async def test_logprobs_alone_score_no_prompt(start: Any) -> None:
    engine = FakeEngine(text_script("!"))
    served = await start(engine)
    answer = await served.openai.completions.create(model="chat", prompt="ab", logprobs=1)
    assert answer.choices[0].logprobs.tokens == ["!"]
    assert not engine.generations[0].score_prompt


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
        ({"prompt": "a", "max_tokens": -1, "echo": True}, "max_tokens"),
        ({"prompt": "a", "echo": True, "logprobs": 21}, "logprobs"),
        ({"prompt": "a", "echo": True, "logprobs": 1, "suffix": "b"}, None),
        ({"prompt": [], "echo": True, "logprobs": 1}, "prompt"),
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
