"""Chat completions, by OpenAI's client where it can say it and raw HTTP where it can't."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import openai
import pytest

from llama_runtime.generation import EngineFailed, InvalidGeneration, NotServing, QueueFull
from tests.runtime.api.fake_engine import FakeEngine, Script, text_script
from tests.runtime.waiting import until

SAY = [{"role": "user", "content": "Say it."}]


async def test_an_answer_has_openai_shape(start: Any) -> None:
    engine = FakeEngine(text_script("Hello"))
    served = await start(engine)
    answer = await served.openai.chat.completions.create(model="chat", messages=SAY)
    assert answer.object == "chat.completion"
    assert answer.id.startswith("chatcmpl-")
    assert answer.model == "chat"
    assert answer.system_fingerprint
    [choice] = answer.choices
    assert choice.message.role == "assistant"
    assert choice.message.content == "Hello"
    assert choice.message.tool_calls is None
    assert choice.finish_reason == "stop"
    assert choice.logprobs is None
    assert answer.usage.completion_tokens == 5
    assert answer.usage.prompt_tokens == len(engine.generations[0].prompt)
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 5
    assert answer.usage.prompt_tokens_details.cached_tokens == 3


async def test_timings_have_llama_cpp_names(start: Any) -> None:
    served = await start(FakeEngine(text_script("Hello")))
    answer = await served.openai.chat.completions.create(model="chat", messages=SAY)
    prompt = answer.usage.prompt_tokens
    assert answer.timings == {
        "cache_n": 3,
        "prompt_n": prompt - 3,
        "prompt_ms": 250.0,
        "prompt_per_second": (prompt - 3) / 0.25,
        "predicted_n": 5,
        "predicted_ms": 125.0,
        "predicted_per_second": 40.0,
    }


async def test_the_template_of_the_model_makes_the_prompt(start: Any) -> None:
    engine = FakeEngine()
    served = await start(engine)
    await served.openai.chat.completions.create(
        model="chat",
        messages=[
            {"role": "developer", "content": "Be brief."},
            {
                "role": "user",
                "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            },
        ],
    )
    prompt = engine.generations[0].prompt
    assert prompt[0] == 256  # the template's own <s>, not a second one
    assert bytes(prompt[1:]).decode() == "[system]Be brief.[user]a\nb[assistant]"


async def test_a_model_without_a_template_cannot_chat(start: Any) -> None:
    served = await start(FakeEngine(template=None))
    with pytest.raises(openai.BadRequestError) as caught:
        await served.openai.chat.completions.create(model="chat", messages=SAY)
    assert caught.value.code == "no_chat_template"
    assert "/v1/completions" in caught.value.message


async def test_a_template_that_refuses_gives_its_reason(start: Any) -> None:
    served = await start(FakeEngine(template="{{ raise_exception('roles must alternate') }}"))
    with pytest.raises(openai.BadRequestError, match="roles must alternate"):
        await served.openai.chat.completions.create(model="chat", messages=SAY)


async def test_a_stream_starts_with_the_role_and_ends_with_a_reason(start: Any) -> None:
    served = await start(FakeEngine(text_script("Hé!")))
    lines = []
    async with served.http.stream(
        "POST",
        "/v1/chat/completions",
        json={"messages": SAY, "stream": True, "stream_options": {"include_usage": True}},
    ) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        async for line in response.aiter_lines():
            if line:
                lines.append(line)
    assert lines.pop() == "data: [DONE]"
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines]
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert all(chunk["object"] == "chat.completion.chunk" for chunk in chunks)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks[:-1]]
    assert deltas[0] == {"role": "assistant", "content": "", "refusal": None}
    assert [delta.get("content") for delta in deltas[1:]] == ["H", "é", "!", None]
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks[:-1]]
    assert reasons == [None] * 4 + ["stop"]
    assert all(chunk["usage"] is None for chunk in chunks[:-1])
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] == 4
    assert chunks[-1]["timings"]["predicted_n"] == 4


async def test_a_stream_without_usage_has_none(start: Any) -> None:
    served = await start(FakeEngine(text_script("Hi")))
    stream = await served.openai.chat.completions.create(model="chat", messages=SAY, stream=True)
    chunks = [chunk async for chunk in stream]
    assert all(chunk.usage is None for chunk in chunks)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Hi"
    assert chunks[-1].choices[0].finish_reason == "stop"


@pytest.mark.parametrize("stream", [False, True])
async def test_max_tokens_ends_with_length(start: Any, stream: bool) -> None:
    engine = FakeEngine(text_script("Hello"))
    served = await start(engine)
    answer = await served.openai.chat.completions.create(
        model="chat", messages=SAY, max_completion_tokens=3, stream=stream
    )
    if stream:
        chunks = [chunk async for chunk in answer]
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        reason = chunks[-1].choices[0].finish_reason
    else:
        text, reason = answer.choices[0].message.content, answer.choices[0].finish_reason
    assert (text, reason) == ("Hel", "length")
    assert engine.generations[0].max_tokens == 3


@pytest.mark.parametrize("stream", [False, True])
async def test_a_stop_string_across_tokens_is_cut_and_ends_the_generation(
    start: Any, stream: bool
) -> None:
    engine = FakeEngine(text_script("one two three"))
    served = await start(engine)
    answer = await served.openai.chat.completions.create(
        model="chat", messages=SAY, stop=["xyz", " thr", "two!"], stream=stream
    )
    if stream:
        chunks = [chunk async for chunk in answer]
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        reason = chunks[-1].choices[0].finish_reason
    else:
        text, reason = answer.choices[0].message.content, answer.choices[0].finish_reason
        assert answer.usage.prompt_tokens_details.cached_tokens == 3
    assert (text, reason) == ("one two", "stop")
    assert (engine.finished, engine.cancelled) == (1, 0)  # its sequence stays in the cache


async def test_what_could_have_become_a_stop_string_is_sent_in_the_end(start: Any) -> None:
    served = await start(FakeEngine(text_script("a thr")))
    answer = await served.openai.chat.completions.create(model="chat", messages=SAY, stop=" three")
    assert answer.choices[0].message.content == "a thr"


async def test_n_answers_have_their_own_seeds(start: Any) -> None:
    engine = FakeEngine(text_script("one"), text_script("two"), text_script("three"))
    served = await start(engine)
    answer = await served.openai.chat.completions.create(model="chat", messages=SAY, n=3, seed=7)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert [choice.message.content for choice in answer.choices] == ["one", "two", "three"]
    assert [generation.sampling.seed for generation in engine.generations] == [7, 8, 9]
    prompt = len(engine.generations[0].prompt)
    assert answer.usage.prompt_tokens == prompt
    assert answer.usage.completion_tokens == 3 + 3 + 5


async def test_n_streams_are_told_apart_by_index(start: Any) -> None:
    served = await start(FakeEngine(text_script("one"), text_script("two")))
    stream = await served.openai.chat.completions.create(
        model="chat", messages=SAY, n=2, stream=True, stream_options={"include_usage": True}
    )
    texts = {0: "", 1: ""}
    reasons = []
    usages = []
    async for chunk in stream:
        usages += [chunk.usage] if chunk.usage else []
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            reasons += [choice.finish_reason] if choice.finish_reason else []
    assert texts == {0: "one", 1: "two"}
    assert reasons == ["stop", "stop"]
    assert [usage.completion_tokens for usage in usages] == [6]


async def test_more_answers_than_can_ever_wait_are_refused(start: Any) -> None:
    served = await start(FakeEngine(queue_limit=4))
    with pytest.raises(openai.BadRequestError, match="at most 6"):
        await served.openai.chat.completions.create(model="chat", messages=SAY, n=7)


async def test_if_one_of_n_is_refused_the_others_are_cancelled(start: Any) -> None:
    gate = asyncio.Event()
    engine = FakeEngine(text_script("x", gate=gate), queue_limit=4)
    served = await start(engine)
    blocked = asyncio.create_task(
        served.openai.chat.completions.create(model="chat", messages=SAY, n=4)
    )
    await until(lambda: len(engine.running) == 4)
    with pytest.raises(openai.RateLimitError) as caught:
        await served.openai.chat.completions.create(model="chat", messages=SAY, n=4)
    assert caught.value.response.headers["retry-after"] == "7"
    assert len(engine.running) == 4
    gate.set()
    assert len((await blocked).choices) == 4


async def test_sampling_parameters_reach_the_engine(start: Any) -> None:
    engine = FakeEngine()
    served = await start(engine)
    await served.openai.chat.completions.create(
        model="chat",
        messages=SAY,
        temperature=0.5,
        top_p=0.9,
        frequency_penalty=0.25,
        presence_penalty=-0.5,
        logit_bias={"65": -100, "66": 5},
        seed=-1,
        extra_body={
            "top_k": 40,
            "min_p": 0.05,
            "repeat_penalty": 1.1,
            "repeat_last_n": 32,
            "ignore_eos": True,
            "cache_prompt": False,
        },
    )
    [generation] = engine.generations
    sampling = generation.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (0.5, 0.9, 40)
    assert (sampling.min_p, sampling.repeat_penalty, sampling.penalty_last_n) == (0.05, 1.1, 32)
    assert (sampling.frequency_penalty, sampling.presence_penalty) == (0.25, -0.5)
    assert dict(sampling.logit_bias) == {65: -100.0, 66: 5.0}
    assert sampling.seed is not None
    assert 0 <= sampling.seed < 2**32 - 1
    assert generation.ignore_eos
    assert not generation.cache_prompt


async def test_defaults_are_those_of_openai(start: Any) -> None:
    engine = FakeEngine()
    served = await start(engine)
    await served.openai.chat.completions.create(model="chat", messages=SAY)
    [generation] = engine.generations
    sampling = generation.sampling
    assert (sampling.temperature, sampling.top_p, sampling.seed) == (1.0, 1.0, None)
    assert generation.max_tokens is None
    assert generation.cache_prompt


async def test_logprobs_join_to_the_answer(start: Any) -> None:
    served = await start(FakeEngine(text_script("Hé")))
    answer = await served.openai.chat.completions.create(
        model="chat", messages=SAY, logprobs=True, top_logprobs=2
    )
    content = answer.choices[0].logprobs.content
    assert b"".join(bytes(entry.bytes) for entry in content).decode() == "Hé"
    assert all(entry.logprob == -0.5 for entry in content)
    assert [len(entry.top_logprobs) for entry in content] == [2, 2, 2]
    assert content[0].top_logprobs[1].logprob == -9999.0  # JSON has no infinity


async def test_logprobs_without_top_have_none(start: Any) -> None:
    served = await start(FakeEngine(text_script("H")))
    answer = await served.openai.chat.completions.create(model="chat", messages=SAY, logprobs=True)
    [entry] = answer.choices[0].logprobs.content
    assert entry.top_logprobs == []


async def test_streamed_logprobs_leave_out_the_stop_string(start: Any) -> None:
    served = await start(FakeEngine(text_script("abcSTOPd")))
    stream = await served.openai.chat.completions.create(
        model="chat", messages=SAY, logprobs=True, stop="STOP", stream=True
    )
    tokens, text = "", ""
    async for chunk in stream:
        choice = chunk.choices[0]
        text += choice.delta.content or ""
        if choice.logprobs:
            tokens += "".join(entry.token for entry in choice.logprobs.content)
    assert tokens == text == "abc"


@pytest.mark.parametrize("content", ["\N{GRINNING FACE}!", "ñandú", "日本語", "a\u0301"])
async def test_no_chunk_breaks_a_character(start: Any, content: str) -> None:
    served = await start(FakeEngine(text_script(content)))
    stream = await served.openai.chat.completions.create(model="chat", messages=SAY, stream=True)
    pieces = [chunk.choices[0].delta.content or "" async for chunk in stream]
    assert "".join(pieces) == content
    assert not any("\ufffd" in piece for piece in pieces)


async def test_half_a_character_at_the_end_is_marked(start: Any) -> None:
    served = await start(FakeEngine(Script(list("aé".encode())[:2])))
    answer = await served.openai.chat.completions.create(model="chat", messages=SAY)
    assert answer.choices[0].message.content == "a\ufffd"


ERRORS = [
    (InvalidGeneration("The grammar has no root."), 400, "invalid_value", None),
    (QueueFull(4, 7), 429, "queue_full", "7"),
    (NotServing("The model is loading.", 5), 503, "not_serving", "5"),
    (EngineFailed("The decode failed."), 500, "engine_failed", None),
    (RuntimeError("a secret of the server"), 500, "internal_error", None),
]


@pytest.mark.parametrize(("error", "status", "code", "retry_after"), ERRORS)
@pytest.mark.parametrize("stream", [False, True])
async def test_refusals_have_openai_shape(
    start: Any, error: Exception, status: int, code: str, retry_after: str | None, stream: bool
) -> None:
    engine = FakeEngine()
    engine.reject = error
    served = await start(engine)
    response = await served.http.post(
        "/v1/chat/completions", json={"messages": SAY, "stream": stream}
    )
    assert response.status_code == status
    assert response.json()["error"].keys() == {"message", "type", "param", "code"}
    assert response.json()["error"]["code"] == code
    assert response.headers.get("retry-after") == retry_after
    assert "secret" not in response.text


async def test_a_prompt_that_cannot_fit_names_the_numbers(start: Any) -> None:
    served = await start(FakeEngine())
    with pytest.raises(openai.BadRequestError) as caught:
        await served.openai.chat.completions.create(model="chat", messages=SAY, max_tokens=64_000)
    assert caught.value.code == "context_length_exceeded"
    assert "64000" in caught.value.message
    assert "contextPerSequence" in caught.value.message


async def test_a_failure_before_the_answer_is_500(start: Any) -> None:
    failing = text_script("Hel", error=EngineFailed("The decode failed: send it again."))
    served = await start(FakeEngine(failing))
    with pytest.raises(openai.InternalServerError, match="send it again"):
        await served.openai.chat.completions.create(model="chat", messages=SAY)


@pytest.mark.parametrize("n", [1, 2])
async def test_a_failure_in_a_stream_is_an_event_and_the_end(start: Any, n: int) -> None:
    failing = text_script("Hel", error=EngineFailed("The decode failed: send it again."))
    engine = FakeEngine(failing, text_script("x", gate=asyncio.Event()))
    served = await start(engine)
    response = await served.http.post(
        "/v1/chat/completions", json={"messages": SAY, "stream": True, "n": n}
    )
    events = [line for line in response.text.splitlines() if line]
    error = json.loads(events[-1].removeprefix("data: "))["error"]
    assert error["code"] == "engine_failed"
    assert "[DONE]" not in response.text
    assert engine.idle  # the other choices were cancelled


async def test_openai_client_raises_on_an_error_event(start: Any) -> None:
    failing = text_script("Hel", error=EngineFailed("The decode failed: send it again."))
    served = await start(FakeEngine(failing))
    stream = await served.openai.chat.completions.create(model="chat", messages=SAY, stream=True)
    with pytest.raises(openai.APIError, match="send it again"):
        [chunk async for chunk in stream]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("after", [0, 2])
async def test_a_client_that_leaves_cancels(start: Any, stream: bool, after: int) -> None:
    """``after`` 0 is as good as queued: the engine has said nothing yet."""
    engine = FakeEngine(text_script("Hello", gate=asyncio.Event(), gate_after=after))
    served = await start(engine)
    body = {"messages": SAY, "stream": stream, "n": 2}
    request = asyncio.create_task(served.http.post("/v1/chat/completions", json=body))
    await until(lambda: [each.sent for each in engine.running] == [after, after])
    request.cancel()
    await asyncio.gather(request, return_exceptions=True)
    await until(lambda: engine.idle)
    assert engine.cancelled == 2


async def test_closing_an_openai_stream_cancels(start: Any) -> None:
    engine = FakeEngine(text_script("Hello", gate=asyncio.Event(), gate_after=3))
    served = await start(engine)
    stream = await served.openai.chat.completions.create(model="chat", messages=SAY, stream=True)
    await anext(aiter(stream))
    await stream.close()
    await until(lambda: engine.idle)
    assert engine.cancelled == 1
