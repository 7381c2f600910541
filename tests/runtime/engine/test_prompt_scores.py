from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from llama_runtime.engine import LlamaEngine
from llama_runtime.engine.batch import Row
from llama_runtime.engine.context import Context
from llama_runtime.engine.step_plan import MOST_SCORED, plan_step
from llama_runtime.engine.stream import Request
from llama_runtime.generation import EngineFailed, Finished, InvalidGeneration, Sampling, Token
from tests.runtime.conftest import EngineFactory
from tests.runtime.engine.driver import Drive, Driver, both_layouts, prompt, sick_at
from tests.runtime.engine.generating import answer, question, tokens_of
from tests.runtime.waiting import until

WITH_LOGPROBS = Sampling(temperature=0, logprobs=3)
ROUNDING = 0.05  # of a cache in f16, computed in other batches; others' tokens are some units off
ROUNDING_OF_Q4 = 0.5


class Watched(Context):
    """A context that counts the logits which were asked for in batches that were computed."""

    outputs = 0

    def decode(self, rows: Sequence[Row]) -> tuple[int, list[int]]:
        result = super().decode(rows)
        if result[0] == 0:
            self.outputs += sum(row.outputs for row in rows)
        return result


def score(
    driver: Driver, tokens: Sequence[int], max_tokens: int | None = 0, **generation: Any
) -> Request:
    return driver.submit(tokens, max_tokens, WITH_LOGPROBS, score_prompt=True, **generation)


def assert_alike(scores: Sequence[Token], expected: Sequence[Token], tolerance: float) -> None:
    assert [one.id for one in scores] == [one.id for one in expected]
    assert logprobs(scores) == pytest.approx(logprobs(expected), abs=tolerance)
    for one, other in zip(scores, expected, strict=True):
        values = [value for _, value in one.top_logprobs]
        assert values == pytest.approx([value for _, value in other.top_logprobs], abs=tolerance)


def logprobs(scores: Sequence[Token]) -> list[float]:
    return [-1.0 if one.logprob is None else one.logprob for one in scores]


def predicted(engine: LlamaEngine) -> int:
    counters = engine.status()["counters"]
    assert isinstance(counters, dict)
    return int(counters["predictedTokens"])


@both_layouts
@pytest.mark.parametrize("others", [0, 3])
def test_a_prompt_scores_as_its_tokens_do_when_they_are_generated(
    drive: Drive, layout: str, others: int
) -> None:
    driver = drive(kv_layout=layout)
    generated = driver.submit(prompt(1, 10), 50, WITH_LOGPROBS)
    driver.run()
    text = [*prompt(1, 10), *driver.tokens(generated)]
    for seed in range(others):
        driver.submit(prompt(seed + 2, 5), 60)
    scored = score(driver, text, 4)
    while not driver.scheduler.idle:
        driver.scheduler.step()
        driver.check()
    scores = scored.prompt_scores
    assert [one.id for one in scores] == text
    assert scores[0] == Token(text[0])
    items = [item for item in driver.delivered[generated] if isinstance(item, Token)]
    assert_alike(scores[10:], items, ROUNDING)
    assert all(len(one.top_logprobs) == 3 for one in scores[1:])
    assert len(driver.tokens(scored)) == 4


@both_layouts
@pytest.mark.parametrize("length", [1, 2, 3, 65, 256])
def test_prompts_of_any_length_are_scored_once(drive: Drive, layout: str, length: int) -> None:
    driver = drive(Watched, kv_layout=layout)
    request = score(driver, prompt(1, length))
    driver.run()
    end = driver.end(request)
    assert isinstance(end, Finished)
    assert end.reason == "length"
    assert [one.id for one in request.prompt_scores] == prompt(1, length)
    assert (end.timings.prompt_tokens, end.timings.cached_tokens) == (length, 0)
    assert driver.scheduler.counters.prompt_tokens == length
    context = driver.scheduler.kv.context
    assert isinstance(context, Watched)
    assert context.outputs == length
    driver.check()


@pytest.mark.parametrize("running", [0, 1, 3])
def test_running_sequences_get_a_token_in_every_step(drive: Drive, running: int) -> None:
    driver = drive()
    streams = [driver.submit(prompt(seed, 5), 200) for seed in range(running)]
    for _ in range(3):
        driver.scheduler.step()
    before = [len(driver.tokens(stream)) for stream in streams]
    scored = score(driver, prompt(9, 100))
    steps = 0
    while driver.end(scored) is None:
        driver.scheduler.step()
        steps += 1
    assert steps == -(-100 // (4 - running))
    after = [len(driver.tokens(stream)) for stream in streams]
    assert [new - old for new, old in zip(after, before, strict=True)] == [steps] * running


def test_what_is_left_of_the_outputs_is_shared_out_evenly(drive: Drive) -> None:
    driver = drive(kv_max_sequences=8)
    requests = [score(driver, prompt(seed, 100)) for seed in range(2)]
    requests.append(driver.submit(prompt(2, 100), 1))
    driver.scheduler._admit()
    plan = plan_step(driver.scheduler.running, 64, 8)
    rows = {sequence.request: row for sequence, row in plan}
    counts = [(len(rows[request].tokens), rows[request].outputs) for request in requests]
    assert counts == [(3, 3), (3, 3), (58, 0)]


def test_a_step_scores_only_so_many_tokens(drive: Drive) -> None:
    driver = drive(kv_max_sequences=64)
    score(driver, prompt(1, 100))
    driver.scheduler._admit()
    [(_, row)] = plan_step(driver.scheduler.running, 64, 64)
    assert row.outputs == len(row.tokens) == MOST_SCORED


def test_one_sequence_scores_a_token_in_a_step(drive: Drive) -> None:
    driver = drive(kv_max_sequences=1)
    request = score(driver, prompt(1, 20))
    assert driver.run() == 20
    assert len(request.prompt_scores) == 20


def test_more_outputs_than_llama_cpp_has_room_for_are_refused(drive: Drive) -> None:
    context = drive(kv_max_sequences=2).scheduler.kv.context
    tokens = np.zeros(3, np.int32)
    with pytest.raises(ValueError, match="At most 2 tokens of a batch"):
        context.decode([Row(0, 0, tokens, 3)])
    assert context.decode([Row(0, 0, tokens, 2)]) == (0, [2])


@both_layouts
@pytest.mark.parametrize("result", [1, -1, 2, -3])
@pytest.mark.parametrize("failing", [2, 15, 40])
def test_a_failed_step_scores_nothing_twice(
    drive: Drive, layout: str, result: int, failing: int
) -> None:
    """The steps of a prompt of 100 tokens: in it, and behind it."""
    calls = 0
    outputs = 0

    class Faulty(Watched):
        def decode(self, rows: Sequence[Row]) -> tuple[int, list[int]]:
            nonlocal calls, outputs
            calls += 1
            if calls == failing:
                return result, []
            outputs += sum(row.outputs for row in rows)
            return super().decode(rows)

    healthy = drive(kv_layout=layout)
    expected = score(healthy, prompt(1, 100), 8)
    healthy.run()
    driver = drive(Faulty, kv_layout=layout)
    first = driver.submit(prompt(2, 3), 1)  # a batch that fails alone would end its request
    request = score(driver, prompt(1, 100), 8)
    second = driver.submit(prompt(3, 3), 60)
    while not driver.scheduler.idle:
        driver.scheduler.step()
        driver.check()
    assert driver.scheduler.counters.decode_failures == 1
    assert_alike(request.prompt_scores, expected.prompt_scores, ROUNDING)
    assert driver.tokens(request) == healthy.tokens(expected)
    assert outputs == 1 + (99 + 8) + 60
    assert all(isinstance(driver.end(each), Finished) for each in (first, request, second))


@both_layouts
def test_a_scored_prompt_takes_no_prefix_and_leaves_one(drive: Drive, layout: str) -> None:
    driver = drive(kv_layout=layout)
    text = prompt(1, 40)
    driver.submit(text, 4)
    driver.run()
    scored = score(driver, text)
    driver.run()
    assert (scored.cached_tokens, len(scored.prompt_scores)) == (0, 40)
    driver.scheduler.kv.evict_all()
    again = score(driver, text)
    driver.scheduler.step()
    beside = driver.submit(text, 4)
    driver.run()
    after = driver.submit(text, 4)
    driver.run()
    assert again.prompt_scores
    assert beside.cached_tokens == after.cached_tokens == 39
    driver.scheduler.kv.evict_all()
    score(driver, text, cache_prompt=False)
    driver.run()
    assert len(driver.scheduler.kv.cached) == 0
    driver.check()


def test_a_postponed_prompt_is_scored_from_its_beginning(drive: Drive) -> None:
    driver = drive(kv_max_sequences=2)
    flood = [score(driver, prompt(seed, 100), client=("a", "")) for seed in range(2)]
    for _ in range(5):
        driver.scheduler.step()
    polite = driver.submit(prompt(9, 5), 2, client=("b", ""))
    driver.run()
    assert driver.scheduler.counters.postponed == 1
    assert isinstance(driver.end(polite), Finished)
    for seed, request in enumerate(flood):
        assert [one.id for one in request.prompt_scores] == prompt(seed, 100)


def test_logits_that_are_no_numbers_fail_only_the_prompt_they_would_score(drive: Drive) -> None:
    driver = drive(sick_at(4))
    stream = driver.submit(prompt(1, 3), 40)
    driver.scheduler.step()
    scored = score(driver, prompt(2, 50))
    driver.run()
    assert isinstance(driver.end(scored), EngineFailed)
    assert scored.prompt_scores == ()
    assert isinstance(driver.end(stream), Finished)


def test_scores_need_to_know_how_many(drive: Drive) -> None:
    with pytest.raises(InvalidGeneration, match="needs logprobs"):
        drive().submit(prompt(1, 3), score_prompt=True)


def test_scoring_says_nothing_of_how_fast_prompts_are(drive: Drive) -> None:
    driver = drive(kv_max_sequences=32)
    score(driver, prompt(1, 200))
    driver.run()
    assert driver.scheduler.counters.prompt_speed == 0
    driver.submit(prompt(2, 200), 1)
    driver.run()
    assert driver.scheduler.counters.prompt_speed > 0


@both_layouts
async def test_a_real_model_scores_what_it_generates(engine: EngineFactory, layout: str) -> None:
    one = engine(kv_layout=layout)
    start = question(one, "Write one sentence about the sea.")
    generated = await answer(one, start, 24, WITH_LOGPROBS)
    text = [*start, *generated.tokens]

    async def scores() -> tuple[Token, ...]:
        return (await answer(one, text, 1, WITH_LOGPROBS, score_prompt=True)).prompt_scores

    alone = await scores()
    before = predicted(one)
    others = [question(one, f"Write one sentence about the number {i}.") for i in range(3)]
    busy = [asyncio.create_task(answer(one, other, 100, ignore_eos=True)) for other in others]
    await until(lambda: predicted(one) >= before + 6)
    among = await scores()
    assert not any(task.done() for task in busy)
    await asyncio.gather(*busy)
    for scored in (alone, among):
        assert [each.id for each in scored] == text
        assert_alike(scored[len(start) :], generated.items, ROUNDING_OF_Q4)
    mean, other_mean = (sum(logprobs(scored)) / len(text) for scored in (alone, among))
    assert mean == pytest.approx(other_mean, abs=0.02)


async def test_the_end_is_scored_too(engine: EngineFactory) -> None:
    """Harnesses drop the last entry, a generated token: it must be there if it is the end."""
    one = engine()
    ended = await answer(one, question(one, "Write one sentence about the sea."), 200)
    text = [*question(one, "Write one sentence about the sea."), *ended.tokens]
    given = await answer(one, text, 1, WITH_LOGPROBS, score_prompt=True)
    [end] = given.items
    assert one.vocabulary.is_end_of_generation(end.id)
    assert end.logprob == max(value for _, value in end.top_logprobs)
    assert given.finished.reason == "stop"
    assert given.finished.timings.predicted_tokens == 1
    plain = await answer(one, text, 1, WITH_LOGPROBS)
    assert plain.items == []
    assert plain.prompt_scores == ()


async def test_the_first_token_of_a_prompt_has_no_score(engine: EngineFactory) -> None:
    one = engine()
    given = await answer(one, tokens_of(one, "The")[:1], 1, WITH_LOGPROBS, score_prompt=True)
    [first] = given.prompt_scores
    assert (first.logprob, first.top_logprobs) == (None, ())
    assert len(given.items) == 1
