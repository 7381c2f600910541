"""The main paths on the real model: llama.cpp is the judge of what the API asks of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import openai
import pytest

from llama_runtime.settings import Settings
from tests.runtime.api.test_tools import CLOCK, HERMES, WEATHER
from tests.runtime.waiting import until

if TYPE_CHECKING:
    from llama_runtime.engine import LlamaEngine

SEA: Any = [{"role": "user", "content": "Write one sentence about the sea."}]
ECHO: Any = {"echo": True, "logprobs": 1}
SEQUENCES = 4
CONTEXT = 512


@pytest.fixture(scope="module")
def engine(libllama: Path, model_path: Path) -> Iterator[LlamaEngine]:
    """One engine for all tests here: its cache from one test must not disturb the next."""
    from llama_runtime.engine import load_engine

    settings = Settings(
        model_path=model_path,
        kv_max_sequences=SEQUENCES,
        kv_context_per_sequence=CONTEXT,
        engine_threads=1,
    )
    loaded = load_engine(settings, lambda progress: None)
    yield loaded
    assert loaded.close(60)


@pytest.fixture
async def served(start: Callable[..., Any], engine: LlamaEngine) -> Any:
    return await start(engine)


@pytest.fixture
def greedy(served: Any) -> Callable[..., Any]:
    def create(**changes: Any) -> Any:
        arguments = {"model": "chat", "messages": SEA, "temperature": 0, "max_tokens": 12}
        return served.openai.chat.completions.create(**{**arguments, **changes})

    return create


async def streamed(stream: Any) -> tuple[str, str]:
    text, reason = "", ""
    async for chunk in stream:
        for choice in chunk.choices:
            text += choice.delta.content or ""
            reason = choice.finish_reason or reason
    return text, reason


async def test_a_stream_and_an_answer_say_the_same(greedy: Any) -> None:
    answer = await greedy()
    text, reason = await streamed(await greedy(stream=True))
    [choice] = answer.choices
    assert choice.message.content
    assert (text, reason) == (choice.message.content, choice.finish_reason)
    assert answer.usage.completion_tokens <= 12


async def test_max_tokens_counts_tokens(greedy: Any) -> None:
    answer = await greedy(max_tokens=3)
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens == 3
    assert answer.timings["predicted_n"] == 3


async def test_the_model_ends_by_itself(greedy: Any) -> None:
    answer = await greedy(max_tokens=None)
    assert answer.choices[0].finish_reason == "stop"
    assert "<|im_end|>" not in answer.choices[0].message.content


async def test_a_prompt_again_comes_from_the_cache(greedy: Any) -> None:
    messages = [{"role": "user", "content": "What do you know about cached prompts?"}]
    first = await greedy(messages=messages, max_tokens=2)
    again = await greedy(messages=messages, max_tokens=2)
    cached = again.usage.prompt_tokens_details.cached_tokens
    assert cached > first.usage.prompt_tokens_details.cached_tokens
    assert again.timings["cache_n"] == cached
    assert again.timings["prompt_n"] == again.usage.prompt_tokens - cached
    assert again.choices[0].message.content == first.choices[0].message.content


async def test_a_stop_string_cuts_where_it_begins(greedy: Any) -> None:
    text = (await greedy()).choices[0].message.content
    stop = text[len(text) // 2 :][:5]  # begins and ends inside of tokens
    answer = await greedy(stop=[stop, "never said"])
    assert answer.choices[0].message.content == text[: text.find(stop)]
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.prompt_tokens_details.cached_tokens > 0


@pytest.mark.parametrize("stream", [False, True])
async def test_a_turn_after_a_stop_string_comes_from_the_cache(
    greedy: Any, served: Any, stream: bool
) -> None:
    turns = [{"role": "user", "content": f"Write one sentence about a lake ({stream})."}]
    if stream:
        said, reason = await streamed(
            await greedy(messages=turns, stop="a", max_tokens=40, stream=True)
        )
    else:
        choice = (await greedy(messages=turns, stop="a", max_tokens=40)).choices[0]
        said, reason = choice.message.content, choice.finish_reason
    assert reason == "stop"
    turns += [
        {"role": "assistant", "content": said},
        {"role": "user", "content": "And another one."},
    ]
    later = await greedy(messages=turns, max_tokens=2)
    known = "<|im_start|>user\n" + turns[0]["content"] + "<|im_end|>\n<|im_start|>assistant\n"
    body = {"content": known}
    least = len((await served.http.post("/tokenize", json=body)).json()["tokens"])
    assert later.usage.prompt_tokens_details.cached_tokens >= least


async def test_a_seed_makes_answers_repeatable(greedy: Any) -> None:
    def texts(answer: Any) -> list[str]:
        return [choice.message.content for choice in answer.choices]

    first = texts(await greedy(temperature=1, seed=11, n=2))
    assert texts(await greedy(temperature=1, seed=11, n=2)) == first
    assert first[0] != first[1]


async def test_logprobs_are_sorted_and_join_to_the_text(greedy: Any) -> None:
    answer = await greedy(logprobs=True, top_logprobs=3, max_tokens=6)
    content = answer.choices[0].logprobs.content
    assert len(content) == 6
    assert "".join(entry.token for entry in content) == answer.choices[0].message.content
    for entry in content:
        tops = [top.logprob for top in entry.top_logprobs]
        assert len(tops) == 3
        assert tops == sorted(tops, reverse=True)
        assert entry.logprob == tops[0] <= 0  # greedy


async def test_a_banned_token_is_not_chosen(greedy: Any, served: Any) -> None:
    first = (await greedy(max_tokens=1)).choices[0].message.content
    tokens = (await served.http.post("/tokenize", json={"content": first})).json()["tokens"]
    other = await greedy(max_tokens=1, logit_bias={str(token): -100 for token in tokens})
    assert other.choices[0].message.content != first


async def test_an_answer_follows_its_schema(greedy: Any) -> None:
    schema = {
        "type": "object",
        "properties": {
            "colour": {"enum": ["blue", "grün"]},
            "depth": {"type": "integer", "minimum": 1, "maximum": 9999},
            "waves": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2},
        },
        "required": ["colour", "depth", "waves"],
        "additionalProperties": False,
    }
    wanted = {"name": "sea", "schema": schema, "strict": True}
    answer = await greedy(
        response_format={"type": "json_schema", "json_schema": wanted}, max_tokens=80
    )
    assert answer.choices[0].finish_reason == "stop"
    jsonschema.validate(json.loads(answer.choices[0].message.content), schema)


@pytest.mark.parametrize("text", ["\N{GRINNING FACE}日本", "na\u00efve \U0001f1eb\U0001f1f7"])
async def test_characters_of_several_tokens_come_whole(greedy: Any, text: str) -> None:
    stream = await greedy(extra_body={"grammar": f'root ::= "{text}"'}, stream=True, max_tokens=60)
    pieces = [chunk.choices[0].delta.content or "" async for chunk in stream]
    assert "".join(pieces) == text
    assert not any("\ufffd" in piece for piece in pieces)


async def test_a_bad_grammar_is_refused_and_the_server_lives(greedy: Any) -> None:
    for grammar in ("root ::= (", 'other ::= "a"', "root ::= root"):
        with pytest.raises(openai.BadRequestError):
            await greedy(extra_body={"grammar": grammar})
    assert (await greedy(max_tokens=1)).choices


async def test_what_cannot_fit_is_refused_with_its_numbers(greedy: Any) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await greedy(max_tokens=CONTEXT)
    assert caught.value.code == "context_length_exceeded"
    assert str(CONTEXT) in caught.value.message
    long = [{"role": "user", "content": "sea " * 2 * CONTEXT}]
    with pytest.raises(openai.BadRequestError, match="shorten the prompt"):
        await greedy(messages=long)


async def test_a_forced_tool_call_follows_its_parameters(
    start: Any, engine: LlamaEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "chat_template", HERMES)
    served = await start(engine)
    answer = await served.openai.chat.completions.create(
        model="chat",
        messages=SEA,
        tools=[WEATHER, CLOCK],
        tool_choice={"type": "function", "function": {"name": "get_weather"}},
        temperature=0,
        max_tokens=80,
        logit_bias={},
    )
    [call] = answer.choices[0].message.tool_calls
    assert answer.choices[0].finish_reason == "tool_calls"
    arguments = json.loads(call.function.arguments)
    jsonschema.validate(arguments, WEATHER["function"]["parameters"])


async def test_this_model_calls_no_tools_and_fills_no_middle(greedy: Any, served: Any) -> None:
    with pytest.raises(openai.BadRequestError, match="knows no tools"):
        await greedy(tools=[WEATHER])
    with pytest.raises(openai.BadRequestError, match="fill in the middle"):
        await served.openai.completions.create(model="chat", prompt="a", suffix="b")


@pytest.mark.parametrize(
    ("path", "asked"),
    [("/v1/chat/completions", {"messages": SEA}), ("/v1/completions", {"prompt": "The sea is"})],
)
async def test_every_choice_of_a_stream_ends_once(served: Any, path: str, asked: Any) -> None:
    """The last token and the end of a choice come together, before its last chunk is sent."""
    body = asked | {"stream": True, "n": 3, "max_tokens": 3, "seed": 1}
    lines = (await served.http.post(path, json=body)).text.splitlines()
    chunks = [json.loads(line[6:]) for line in lines if line and "[DONE]" not in line]
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    assert reasons.count("length") == 3
    assert ["timings" in chunk for chunk in chunks] == [False] * (len(chunks) - 1) + [True]


async def test_text_and_its_tokens_are_completed_alike(served: Any) -> None:
    prompt = "The sea is"
    body = {"content": prompt, "add_special": True}
    tokens = (await served.http.post("/tokenize", json=body)).json()["tokens"]
    answer = await served.openai.completions.create(
        model="chat", prompt=[prompt], temperature=0, max_tokens=8, logprobs=2
    )
    same = await served.openai.completions.create(
        model="chat", prompt=[tokens], temperature=0, max_tokens=8, echo=True
    )
    [choice] = answer.choices
    assert same.choices[0].text == prompt + choice.text
    assert "".join(choice.logprobs.tokens) == choice.text
    assert choice.logprobs.text_offset[0] == 0


async def test_a_harness_gets_the_likelihood_of_a_continuation(
    served: Any, engine: LlamaEngine
) -> None:
    """As lm-eval asks: tokens, one of them generated, which is dropped from the sum."""

    def tokens_of(text: str) -> list[int]:
        return engine.vocabulary.tokenize(text, add_special=False, parse_special=False)

    def likelihood(choice: Any, length: int) -> tuple[float, bool]:
        scores = choice.logprobs.token_logprobs[length:-1]
        tops = choice.logprobs.top_logprobs[length:-1]
        return sum(scores), all(
            score == max(top.values()) for score, top in zip(scores, tops, strict=True)
        )

    context = tokens_of("The capital of France is")
    prompts = [[*context, *tokens_of(text)] for text in (" Paris", " a banana", " Paris.")]
    ask = {"model": "chat", "temperature": 0, "max_tokens": 1, "seed": 1234, **ECHO}
    answer = await served.openai.completions.create(prompt=prompts, **ask)
    found = [likelihood(choice, len(context)) for choice in answer.choices]
    for choice, prompt in zip(answer.choices, prompts, strict=True):
        assert len(choice.logprobs.tokens) == len(prompt) + 1
    assert found[0][0] > found[1][0] + 2
    assert not found[1][1]
    [alone] = (await served.openai.completions.create(prompt=prompts[0], **ask)).choices
    assert likelihood(alone, len(context))[0] == pytest.approx(found[0][0], abs=0.2)
    assert answer.usage.prompt_tokens == sum(map(len, prompts))
    assert answer.usage.prompt_tokens_details.cached_tokens == 0


async def test_a_scored_prompt_that_the_model_would_end(served: Any) -> None:
    sea = "<|im_start|>user\nWrite one sentence about the sea.<|im_end|>\n<|im_start|>assistant\n"
    ask = {"model": "chat", "temperature": 0, "logprobs": 1}
    said = await served.openai.completions.create(prompt=sea, max_tokens=200, **ask)
    assert said.choices[0].finish_reason == "stop"
    prompt = sea + said.choices[0].text
    answer = await served.openai.completions.create(prompt=prompt, max_tokens=1, echo=True, **ask)
    [choice] = answer.choices
    assert (choice.text, choice.finish_reason) == (prompt, "stop")
    assert choice.logprobs.tokens[-1] == "<|im_end|>"
    assert "".join(choice.logprobs.tokens[:-1]) == prompt
    assert choice.logprobs.text_offset[-1] == len(prompt)
    for text, offset in zip(choice.logprobs.tokens[:-1], choice.logprobs.text_offset, strict=False):
        assert prompt.startswith(text, offset)
    assert len(choice.logprobs.tokens) == answer.usage.total_tokens


@pytest.mark.parametrize("stream", [False, True])
async def test_a_prompt_that_fills_its_context_is_scored(served: Any, stream: bool) -> None:
    body = {"prompt": [28] * CONTEXT, "max_tokens": 0, "stream": stream, **ECHO}
    response = await served.http.post("/v1/completions", json=body)
    data = response.text.splitlines()[0].removeprefix("data: ")
    [choice] = json.loads(data)["choices"]
    assert len(choice["logprobs"]["tokens"]) == CONTEXT
    assert choice["logprobs"]["token_logprobs"].count(None) == 1
    long = await served.http.post("/v1/completions", json=body | {"max_tokens": 1})
    assert long.status_code == 400
    assert long.json()["error"]["code"] == "context_length_exceeded"


async def test_tokens_become_the_text_again(served: Any) -> None:
    text = "The sea \N{WATER WAVE} is <|im_start|> naïve"
    tokens = (await served.http.post("/tokenize", json={"content": text})).json()["tokens"]
    again = await served.http.post("/detokenize", json={"tokens": tokens})
    assert again.json()["content"] == text


async def test_embeddings_are_normalised_and_repeatable(served: Any) -> None:
    answer = await served.openai.embeddings.create(model="chat", input=["sea", "sea", "a ship"])
    first, same, other = (item.embedding for item in answer.data)
    assert sum(x * x for x in first) == pytest.approx(1, abs=1e-3)
    assert first == pytest.approx(same, abs=1e-4)
    assert first != pytest.approx(other, abs=1e-2)


async def test_more_streams_than_sequences_all_end(greedy: Any, engine: LlamaEngine) -> None:
    questions = [
        [{"role": "user", "content": f"Write one sentence about the number {i}."}]
        for i in range(2 * SEQUENCES)
    ]
    alone = [(await greedy(messages=each)).choices[0].message.content for each in questions[:2]]
    streams = [greedy(messages=each, stream=True) for each in questions]

    async def follow(stream: Any) -> str:
        return (await streamed(await stream))[0]

    together = await asyncio.gather(*map(follow, streams))
    assert all(together)
    assert together[:2] == alone
    await until(lambda: engine.idle)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_frees_its_sequences(
    served: Any, engine: LlamaEngine, stream: bool
) -> None:
    def requests() -> Any:
        return engine.status()["requests"]

    cancelled = requests()["cancelled"]
    body = {"messages": SEA, "stream": stream, "ignore_eos": True, "n": SEQUENCES + 1}
    asking = asyncio.create_task(served.http.post("/v1/chat/completions", json=body))
    await until(lambda: requests()["running"] == SEQUENCES and requests()["queued"] == 1)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await until(lambda: engine.idle)
    assert requests()["cancelled"] == cancelled + SEQUENCES + 1
