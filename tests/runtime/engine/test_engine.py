from __future__ import annotations

import asyncio
import gc

import pytest

from llama_runtime.engine import LlamaEngine
from llama_runtime.generation import (
    DoesNotFit,
    Generation,
    InvalidGeneration,
    NotServing,
    QueueFull,
    Sampling,
    Token,
)
from tests.runtime.conftest import EngineFactory
from tests.runtime.engine.generating import GREEDY, answer, question, text_of, tokens_of
from tests.runtime.waiting import until


def kv(engine: LlamaEngine) -> dict[str, int]:
    status = engine.status()["kv"]
    assert isinstance(status, dict)
    return {**status, **status["sequences"]}


def requests(engine: LlamaEngine) -> dict[str, int]:
    status = engine.status()["requests"]
    assert isinstance(status, dict)
    return status


async def test_a_greedy_answer(engine: EngineFactory) -> None:
    one = engine()
    capital = await answer(one, question(one, "What is the capital of France?"), 7)
    assert text_of(one, capital.tokens).startswith("The capital of France is Paris")
    sentence = await answer(one, question(one, "Write one sentence about the sea."), 200)
    assert text_of(one, sentence.tokens).endswith(".")
    assert sentence.finished.reason == "stop"
    assert not any(one.vocabulary.is_end_of_generation(token) for token in sentence.tokens)


async def test_max_tokens_ends_with_length(engine: EngineFactory) -> None:
    one = engine()
    given = await answer(one, question(one, "Write one sentence about the sea."), 5)
    assert len(given.tokens) == 5
    assert given.finished.reason == "length"
    assert given.finished.timings.predicted_tokens == 5
    none = await answer(one, question(one, "Write one sentence about the moon."), 0)
    assert none.tokens == []
    assert none.finished.reason == "length"


async def test_without_max_tokens_a_sequence_fills_its_context(engine: EngineFactory) -> None:
    one = engine(kv_context_per_sequence=100)
    prompt = question(one, "Count.")
    given = await answer(one, prompt, None, ignore_eos=True)
    assert len(prompt) + len(given.tokens) == 100
    assert given.finished.reason == "length"


async def test_ignore_eos_goes_on(engine: EngineFactory) -> None:
    one = engine()
    given = await answer(
        one, question(one, "Write one sentence about the sea."), 60, ignore_eos=True
    )
    assert len(given.tokens) == 60
    assert not any(one.vocabulary.is_end_of_generation(token) for token in given.tokens)


async def test_a_prompt_longer_than_a_batch(engine: EngineFactory) -> None:
    one = engine(kv_context_per_sequence=1024, engine_batch_size=64, engine_micro_batch_size=64)
    prompt = tokens_of(one, " one two three four five six seven eight nine ten" * 40)
    assert len(prompt) > 300
    given = await answer(one, prompt, 10)
    assert text_of(one, given.tokens) == " one two three four five six seven eight nine ten"


async def test_what_never_fits_is_refused_with_the_numbers(engine: EngineFactory) -> None:
    one = engine(kv_context_per_sequence=100)
    prompt = tokens_of(one, "word " * 60)
    with pytest.raises(DoesNotFit) as refused:
        one.submit(Generation(prompt, 60))
    assert (refused.value.prompt_tokens, refused.value.requested_tokens) == (len(prompt), 60)
    assert refused.value.context_per_sequence == 100
    with pytest.raises(DoesNotFit):
        one.submit(Generation(prompt * 2))
    assert one.idle


@pytest.mark.parametrize(
    ("generation", "message"),
    [
        (Generation(()), "The prompt is empty"),
        (Generation((1, 49152)), "Token 49152 does not exist"),
        (Generation((-1, 1)), "Token -1 does not exist"),
        (Generation((1,), -1), "max_tokens is -1"),
        (Generation((1,), 1, Sampling(temperature=-1)), "temperature is -1"),
        (Generation((1,), 1, Sampling(temperature=float("nan"))), "temperature is nan"),
        (Generation((1,), 1, Sampling(top_p=1.5)), "top_p is 1.5"),
        (Generation((1,), 1, Sampling(min_p=-0.5)), "min_p is -0.5"),
        (Generation((1,), 1, Sampling(top_k=-1)), "top_k is -1"),
        (Generation((1,), 1, Sampling(repeat_penalty=0)), "repeat_penalty is 0"),
        (Generation((1,), 1, Sampling(logprobs=-1)), "logprobs is -1"),
        (Generation((1,), 1, Sampling(logit_bias=((50000, 1),))), "logit_bias is 50000"),
        (Generation((1,), 1, Sampling(grammar='root ::= "')), "no GBNF at"),
        (Generation((1,), 1, Sampling(grammar='start ::= "a"')), "no rule named root"),
        (Generation((1,), 1, Sampling(grammar="root ::= missing")), "missing is not"),
        (Generation((1,), 1, Sampling(grammar="root ::= root")), "can't be used"),
        (Generation((1,), 1, Sampling(grammar='root ::= "a"\0')), "no GBNF at"),
    ],
)
async def test_wrong_requests_are_refused_at_once(
    generation: Generation, message: str, engine: EngineFactory
) -> None:
    one = engine()
    with pytest.raises(InvalidGeneration, match=message):
        one.submit(generation)
    assert one.idle
    assert (await answer(one, (1, 2, 3), 2)).finished


async def test_a_full_queue_refuses_and_says_when_to_retry(engine: EngineFactory) -> None:
    one = engine(kv_max_sequences=2, server_queue_limit=3)
    prompt = tokens_of(one, "The sea")
    streams = [one.submit(Generation(prompt, 20, GREEDY, ignore_eos=True)) for _ in range(5)]
    with pytest.raises(QueueFull) as refused:
        one.submit(Generation(prompt, 100))
    assert refused.value.retry_after >= 1
    assert requests(one)["rejected"] == 1
    for stream in streams:
        tokens = [item async for item in stream]
        assert len(tokens) == 21
    assert requests(one)["finished"] == 5


async def test_a_queue_limit_of_zero_still_serves_every_sequence(engine: EngineFactory) -> None:
    one = engine(kv_max_sequences=3, server_queue_limit=0)
    prompt = tokens_of(one, "The sea")
    answers = await asyncio.gather(*(answer(one, prompt, 8) for _ in range(3)))
    assert [len(given.tokens) for given in answers] == [8, 8, 8]


async def test_leaving_frees_the_sequence_and_its_cells(engine: EngineFactory) -> None:
    one = engine(kv_max_sequences=1)
    stream = one.submit(Generation(tokens_of(one, "The sea"), 400, GREEDY, ignore_eos=True))
    assert isinstance(await anext(aiter(stream)), Token)
    queued = one.submit(Generation(tokens_of(one, "The moon"), 400, GREEDY))
    await queued.aclose()
    await stream.aclose()
    await stream.aclose()
    await until(lambda: one.idle)
    assert kv(one)["cellsUsed"] == 0
    assert kv(one)["free"] == 1
    assert requests(one)["cancelled"] == 2
    assert stream.timings.predicted_tokens < 400
    assert [item async for item in stream] == []


async def test_leaving_during_the_prompt_frees_it(engine: EngineFactory) -> None:
    one = engine(kv_context_per_sequence=4096, engine_batch_size=32, engine_micro_batch_size=32)
    stream = one.submit(Generation(tokens_of(one, "word " * 3000), 1, GREEDY))
    await until(lambda: kv(one)["cellsUsed"] > 0)
    await stream.aclose()
    await until(lambda: one.idle)
    assert kv(one)["cellsUsed"] == 0
    assert stream.timings.predicted_tokens == 0


async def test_a_forgotten_stream_is_cancelled(engine: EngineFactory) -> None:
    one = engine(kv_max_sequences=1)
    stream = one.submit(Generation(tokens_of(one, "The sea"), 400, GREEDY, ignore_eos=True))
    await until(lambda: requests(one)["running"] == 1)
    del stream
    gc.collect()
    await until(lambda: one.idle)
    assert requests(one)["cancelled"] == 1


async def test_draining_finishes_what_was_taken_and_refuses_more(engine: EngineFactory) -> None:
    one = engine(kv_max_sequences=1)
    prompt = tokens_of(one, "The sea")
    running = asyncio.ensure_future(answer(one, prompt, 30))
    queued = asyncio.ensure_future(answer(one, prompt, 30))
    await asyncio.sleep(0)
    one.drain()
    with pytest.raises(NotServing):
        one.submit(Generation(prompt, 1))
    with pytest.raises(NotServing):
        await one.embed(prompt)
    assert len((await running).tokens) == len((await queued).tokens) == 30
    assert one.idle


async def test_embeddings_have_length_one_and_know_what_is_near(engine: EngineFactory) -> None:
    one = engine()

    async def embed(text: str) -> list[float]:
        return await one.embed(tokens_of(one, text))

    sea, ocean, tax = await asyncio.gather(
        embed("The waves of the sea are high."),
        embed("The waves of the ocean are tall."),
        embed("Income tax returns are due in May."),
    )

    def dot(a: list[float], b: list[float]) -> float:
        return sum(x * y for x, y in zip(a, b, strict=True))

    assert dot(sea, sea) == pytest.approx(1)
    assert dot(sea, ocean) > dot(sea, tax)
    with pytest.raises(InvalidGeneration, match="at most 512"):
        await one.embed((1,) * 513)
    await until(lambda: one.idle)


async def test_timings_add_up(engine: EngineFactory) -> None:
    one = engine()
    prompt = question(one, "What is the capital of France?")
    timings = (await answer(one, prompt, 5)).finished.timings
    assert (timings.prompt_tokens, timings.cached_tokens) == (len(prompt), 0)
    assert timings.predicted_tokens == 5
    assert min(timings.queue_seconds, timings.prompt_seconds, timings.predicted_seconds) >= 0


async def test_a_full_queue_still_takes_a_client_that_has_nothing_in_it(
    engine: EngineFactory,
) -> None:
    one = engine(kv_max_sequences=1, server_queue_limit=2)
    prompt = tokens_of(one, "The sea")
    streams = [
        one.submit(Generation(prompt, 400, GREEDY, ignore_eos=True, client=("a", "")))
        for _ in range(3)
    ]
    with pytest.raises(QueueFull):
        one.submit(Generation(prompt, 1, GREEDY, client=("a", "")))
    streams.append(one.submit(Generation(prompt, 1, GREEDY, client=("b", ""))))
    with pytest.raises(QueueFull):
        one.submit(Generation(prompt, 1, GREEDY, client=("b", "")))
    for stream in streams:
        await stream.aclose()
