from __future__ import annotations

import asyncio
import math

import pytest

from llama_runtime.generation import Sampling
from tests.runtime.conftest import EngineFactory
from tests.runtime.engine.generating import answer, question, text_of, tokens_of

JSON_GRAMMAR = r"""
root ::= "{" ws "\"name\":" ws "\"" [A-Z] [a-z]+ "\"" "," ws "\"age\":" ws [0-9] [0-9]? "}"
ws ::= " "?
"""


async def test_a_seed_repeats_and_no_seed_differs(engine: EngineFactory) -> None:
    one = engine()
    prompt = question(one, "Write one sentence about the sea.")

    async def sample(seed: int | None) -> list[int]:
        return (await answer(one, prompt, 24, Sampling(temperature=1.5, seed=seed))).tokens

    assert await sample(7) == await sample(7)
    assert await sample(7) != await sample(8)
    assert await sample(None) != await sample(None)
    assert await sample(2**32 - 1) == await sample(2**32 - 1)


async def test_top_k_of_one_is_greedy_at_any_temperature(engine: EngineFactory) -> None:
    one = engine()
    prompt = question(one, "Write one sentence about the sea.")
    greedy = await answer(one, prompt, 16)
    for sampling in (
        Sampling(temperature=5, top_k=1),
        Sampling(temperature=5, top_p=0.0),
        Sampling(temperature=5, min_p=1.0),
    ):
        assert (await answer(one, prompt, 16, sampling)).tokens == greedy.tokens


async def test_logit_bias_forbids_and_forces(engine: EngineFactory) -> None:
    one = engine()
    prompt = question(one, "What is the capital of France?")
    first = (await answer(one, prompt, 1)).tokens[0]
    forbidden = await answer(
        one, prompt, 8, Sampling(temperature=0, logit_bias=((first, -math.inf),))
    )
    assert first not in forbidden.tokens
    (sea,) = tokens_of(one, " sea")
    forced = await answer(one, prompt, 4, Sampling(temperature=0, logit_bias=((sea, 1000.0),)))
    assert forced.tokens == [sea] * 4


async def test_penalties_stop_repetition(engine: EngineFactory) -> None:
    one = engine()
    prompt = tokens_of(one, " one two three one two three one two three one two three")
    plain = await answer(one, prompt, 8)
    assert set(plain.tokens) <= set(prompt)
    for sampling in (
        Sampling(temperature=0, presence_penalty=100),
        Sampling(temperature=0, frequency_penalty=100),
        Sampling(temperature=0, repeat_penalty=1000),
    ):
        penalised = await answer(one, prompt, 8, sampling)
        assert len(set(penalised.tokens) - set(prompt)) == 8
    blind = Sampling(temperature=0, presence_penalty=100, penalty_last_n=0)
    assert (await answer(one, prompt, 8, blind)).tokens == plain.tokens


async def test_logprobs_are_those_of_the_model(engine: EngineFactory) -> None:
    one = engine()
    prompt = question(one, "What is the capital of France?")
    given = await answer(one, prompt, 4, Sampling(temperature=0, logprobs=5))
    for token in given.items:
        assert token.logprob is not None
        assert token.top_logprobs[0] == (token.id, token.logprob)
        values = [value for _, value in token.top_logprobs]
        assert values == sorted(values, reverse=True)
        assert len(values) == 5
        assert sum(map(math.exp, values)) <= 1 + 1e-6
    everything = await answer(
        one, prompt, 1, Sampling(temperature=3, top_k=1, logprobs=one.vocabulary.size)
    )
    total = sum(math.exp(value) for _, value in everything.items[0].top_logprobs)
    assert total == pytest.approx(1, abs=1e-4)
    # Temperature and filters do not change them.
    assert everything.items[0].logprob == pytest.approx(given.items[0].logprob)
    none = await answer(one, prompt, 1, Sampling(temperature=0, logprobs=0))
    assert none.items[0].logprob == pytest.approx(given.items[0].logprob)
    assert none.items[0].top_logprobs == ()


@pytest.mark.parametrize("temperature", [0.0, 1.2])
async def test_a_grammar_holds_and_ends_the_answer(
    engine: EngineFactory, temperature: float
) -> None:
    one = engine()
    given = await answer(
        one,
        question(one, "Who are you?"),
        64,
        Sampling(temperature=temperature, seed=1, grammar=JSON_GRAMMAR),
    )
    text = text_of(one, given.tokens)
    assert text.startswith("{")
    assert text.endswith("}")
    assert '"name":' in text
    assert '"age":' in text
    assert given.finished.reason == "stop"


async def test_a_grammar_that_is_complete_stops_even_without_end_of_generation(
    engine: EngineFactory,
) -> None:
    one = engine()
    given = await answer(
        one,
        question(one, "Yes or no?"),
        16,
        Sampling(temperature=0, grammar='root ::= "maybe"'),
        ignore_eos=True,
    )
    assert text_of(one, given.tokens) == "maybe"
    assert given.finished.reason == "stop"


async def test_a_greedy_neighbour_of_a_sampled_request_is_not_disturbed(
    engine: EngineFactory,
) -> None:
    one = engine()
    prompt = question(one, "Write one sentence about the sea.")
    alone = await answer(one, prompt, 12, cache_prompt=False)
    together, *_ = await asyncio.gather(
        answer(one, prompt, 12, cache_prompt=False),
        answer(one, question(one, "Count."), 12, Sampling(temperature=2, repeat_penalty=1.5)),
        answer(one, question(one, "Sing."), 12, Sampling(logit_bias=((5, 50.0),), logprobs=2)),
    )
    assert together.tokens == alone.tokens
