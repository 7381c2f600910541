from __future__ import annotations

import itertools
import random
from typing import Any

import llama_cpp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llama_runtime.engine.context import Context, leaves_state_untouched
from llama_runtime.engine.stream import Request
from llama_runtime.generation import EngineFailed, Finished, Sampling
from tests.runtime.engine.driver import Drive, both_layouts, prompt, sick_at


@both_layouts
def test_every_request_gets_its_tokens(drive: Drive, layout: str) -> None:
    driver = drive(kv_layout=layout)
    requests = [driver.submit(prompt(seed, 5 + 9 * seed), 10) for seed in range(9)]
    driver.run()
    for request in requests:
        end = driver.end(request)
        assert isinstance(end, Finished)
        assert end.reason == "length"
        assert len(driver.tokens(request)) == 10
    driver.check()


@both_layouts
def test_what_was_admitted_can_always_finish(drive: Drive, layout: str) -> None:
    """Four times 8 + 300 tokens into 512 cells: over-admission would fail them all."""
    driver = drive(
        kv_layout=layout,
        kv_context_per_sequence=512,
        kv_total_context=512 if layout == "Unified" else None,
    )
    requests = [driver.submit(prompt(seed, 8), 300) for seed in range(4)]
    most = 0
    while not driver.scheduler.idle:
        driver.scheduler.step()
        most = max(most, len(driver.scheduler.running))
    assert [len(driver.tokens(request)) for request in requests] == [300] * 4
    assert driver.scheduler.counters.decode_failures == 0
    assert most == (1 if layout == "Unified" else 4)


def test_the_unified_pool_is_overcommitted_up_to_what_is_promised(drive: Drive) -> None:
    driver = drive(kv_layout="Unified", kv_total_context=512, kv_max_sequences=8)
    short = [driver.submit(prompt(seed, 10), 54) for seed in range(8)]
    driver.scheduler.step()
    assert len(driver.scheduler.running) == 8
    late = driver.submit(prompt(9, 10), None)
    driver.run()
    assert all(len(driver.tokens(request)) == 54 for request in short)
    assert len(driver.tokens(late)) == 246


def test_requests_start_in_order_of_arrival(drive: Drive) -> None:
    """A large request at the head of the queue is not overtaken by small ones."""
    driver = drive(kv_layout="Unified", kv_total_context=256)
    first = driver.submit(prompt(1, 10), 100)
    large = driver.submit(prompt(2, 10), 200)
    small = [driver.submit(prompt(seed, 4), 4) for seed in range(3, 6)]
    driver.scheduler.step()
    assert driver.scheduler.waits_for_cells
    driver.run()
    admitted = [request.admitted for request in (first, large, *small)]
    assert None not in admitted
    assert admitted == sorted(admitted, key=lambda time: time or 0)


def test_running_sequences_get_a_token_in_every_step_of_a_long_prompt(drive: Drive) -> None:
    driver = drive(kv_context_per_sequence=4200)
    running = [driver.submit(prompt(seed, 5), 500) for seed in range(3)]
    driver.scheduler.step()
    driver.scheduler.step()
    long = driver.submit(prompt(9, 4000), 1)
    before = [len(driver.tokens(request)) for request in running]
    steps = 0
    while driver.end(long) is None:
        driver.scheduler.step()
        steps += 1
    assert 4000 / 64 <= steps <= 4000 / 61 + 2
    after = [len(driver.tokens(request)) for request in running]
    assert [new - old for new, old in zip(after, before, strict=True)] == [steps] * 3


def test_a_short_prompt_does_not_wait_for_a_long_one(drive: Drive) -> None:
    driver = drive(kv_context_per_sequence=2048)
    long = driver.submit(prompt(1, 2000), 1)
    driver.scheduler.step()
    short = driver.submit(prompt(2, 30), 1)
    driver.scheduler.step()
    assert driver.end(short) is not None
    assert driver.end(long) is None


def test_a_long_prompt_does_not_starve_among_short_ones(drive: Drive) -> None:
    driver = drive(kv_context_per_sequence=2048)
    long = driver.submit(prompt(1, 1000), 1)
    steps = 0
    while driver.end(long) is None:
        while len(driver.scheduler.running) + len(driver.scheduler.queue) < 4:
            driver.submit(prompt(steps, 60), 1)
        driver.scheduler.step()
        steps += 1
    assert steps <= 1000 / 32 + 2


@both_layouts
@pytest.mark.parametrize("when", ["queued", "in its prompt", "generating"])
def test_a_cancelled_request_is_gone_after_one_step(drive: Drive, layout: str, when: str) -> None:
    driver = drive(kv_layout=layout, kv_max_sequences=1)
    first = driver.submit(prompt(1, 200), 20)
    waiting = driver.submit(prompt(2, 10), 20)
    driver.scheduler.step()
    gone = waiting if when == "queued" else first
    if when == "generating":
        while not driver.tokens(first):
            driver.scheduler.step()
    gone.cancel()
    driver.scheduler.step()
    driver.check()
    assert gone.ended is not None
    assert driver.scheduler.counters.cancelled == 1
    if when != "queued":
        assert waiting.admitted is not None
        assert driver.scheduler.kv.account.used == 10
    driver.run()
    assert driver.end(gone) is None
    driver.check()


def test_greedy_is_the_same_alone_among_others_and_staggered(drive: Drive) -> None:
    prompts = [prompt(seed, 7 + 11 * seed) for seed in range(16)]
    alone: list[list[int]] = []
    for one in prompts:
        driver = drive(kv_max_sequences=16)
        request = driver.submit(one, 40)
        driver.run()
        alone.append(driver.tokens(request))
    together = drive(kv_max_sequences=16)
    requests = [together.submit(one, 40) for one in prompts]
    together.run()
    assert [together.tokens(request) for request in requests] == alone
    staggered = drive(kv_max_sequences=16)
    requests = []
    for one in prompts:
        requests.append(staggered.submit(one, 40))
        staggered.scheduler.step()
        staggered.scheduler.step()
    staggered.run()
    assert [staggered.tokens(request) for request in requests] == alone


NO_POISON = Sampling(temperature=0, logit_bias=((63, -100.0),))


def poisoned(result: int, *, times: int | None = None) -> type[Context]:
    """A context whose llama_decode gives ``result`` for batches with token 63."""
    left = [times]

    class Poisoned(Context):
        def decode(self, rows: Any) -> tuple[int, list[int]]:
            if any(63 in row.tokens for row in rows) and left[0] != 0:
                if left[0] is not None:
                    left[0] -= 1
                return result, []
            return super().decode(rows)

    return Poisoned


@both_layouts
@pytest.mark.parametrize("result", [1, -1, 2, -2, -3])
def test_only_the_request_that_can_not_be_computed_fails(
    drive: Drive, layout: str, result: int
) -> None:
    healthy = drive(kv_layout=layout)
    expected = [healthy.submit(prompt(seed, 20), 20, NO_POISON) for seed in range(3)]
    healthy.run()

    driver = drive(poisoned(result), kv_layout=layout)
    good = [driver.submit(prompt(seed, 20), 20, NO_POISON) for seed in range(2)]
    driver.scheduler.step()
    bad = driver.submit([*prompt(7, 20), 63, *prompt(8, 10)], 20)
    good.append(driver.submit(prompt(2, 20), 20, NO_POISON))
    while not driver.scheduler.idle:
        driver.scheduler.step()
        driver.check()
    assert isinstance(driver.end(bad), EngineFailed)
    assert all(isinstance(driver.end(request), Finished) for request in good)
    assert [driver.tokens(request) for request in good] == [
        healthy.tokens(request) for request in expected
    ]
    counters = driver.scheduler.counters
    assert (counters.failed, counters.finished) == (1, 3)
    assert counters.decode_failures >= 2
    assert (counters.context_rebuilds > 0) == (result not in (1, -1))


@pytest.mark.parametrize("result", [1, -1, -3])
def test_a_passing_fault_fails_nobody(drive: Drive, result: int) -> None:
    driver = drive(poisoned(result, times=1))
    requests = [driver.submit([63, *prompt(seed, 20)], 20) for seed in range(4)]
    driver.run()
    assert all(len(driver.tokens(request)) == 20 for request in requests)
    assert driver.scheduler.counters.decode_failures == 1
    driver.check()


def test_a_lasting_fault_ends_every_request_and_soon(drive: Drive) -> None:
    class Broken(Context):
        def decode(self, rows: Any) -> tuple[int, list[int]]:
            return -3, []

    driver = drive(Broken)
    requests = [driver.submit(prompt(seed, 20), 20) for seed in range(8)]
    assert driver.run() < 30
    assert all(isinstance(driver.end(request), EngineFailed) for request in requests)


@both_layouts
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    faults=st.dictionaries(st.integers(0, 60), st.sampled_from([1, 2, -1, -2, -3]), max_size=12),
    seed=st.integers(0, 1000),
    computed=st.booleans(),
)
def test_whatever_llama_decode_answers_every_request_ends(
    drive: Drive, layout: str, faults: dict[int, int], seed: int, computed: bool
) -> None:
    """Faults at the seam to llama.cpp, before or after it computed; then all is well again."""
    driver = drive(kv_layout=layout)
    decode, calls = llama_cpp.llama_decode, itertools.count()

    def faulty(context: Any, batch: Any) -> int:
        result = faults.get(next(calls), 0)
        # What says that the cache is as it was must not have changed it.
        if result == 0 or (computed and not leaves_state_untouched(result)):
            return int(decode(context, batch)) or result
        return result

    random_ = random.Random(seed)
    requests: list[Request] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(llama_cpp, "llama_decode", faulty)
        while len(requests) < 12 or not driver.scheduler.idle:
            if len(requests) < 12:
                requests.append(
                    driver.submit(
                        prompt(random_.randint(0, 4), 30),
                        12,
                        Sampling(temperature=0, logprobs=1),
                        score_prompt=random_.random() < 0.3,
                    )
                )
                if random_.random() < 0.2:
                    random_.choice(requests).cancel()
            driver.scheduler.step()
            driver.check()
    counters = driver.scheduler.counters
    failed = [request for request in requests if isinstance(driver.end(request), EngineFailed)]
    assert counters.finished + counters.failed + counters.cancelled == len(requests)
    assert counters.failed == len(failed)
    assert counters.decode_failures >= len(failed) / 4  # a batch is of four at most
    after = driver.submit(prompt(99, 30), 12)
    driver.run()
    assert isinstance(driver.end(after), Finished)


def test_logits_that_are_no_numbers_end_only_their_request(drive: Drive) -> None:
    driver = drive(sick_at(3))
    requests = [driver.submit(prompt(seed, 20), 8) for seed in range(3)]
    driver.run()
    ends = [type(driver.end(request)) for request in requests]
    assert ends == [Finished, EngineFailed, Finished]


@both_layouts
def test_random_traffic_leaves_nothing_behind(drive: Drive, layout: str) -> None:
    driver = drive(
        kv_layout=layout,
        kv_max_sequences=6,
        kv_total_context=700 if layout == "Unified" else None,
    )
    random_ = random.Random(3)
    stems = [prompt(seed, 60) for seed in range(3)]
    open_requests = []
    ended = 0
    submitted = 0
    while submitted < 400 or not driver.scheduler.idle:
        if submitted < 400 and random_.random() < 0.5:
            stem = random_.choice(stems)[: random_.randint(0, 60)]
            body = prompt(random_.randint(0, 10), random_.randint(1, 60))
            open_requests.append(
                driver.submit(
                    [*stem, *body],
                    random_.choice([0, 1, 5, 30, None]) if random_.random() < 0.9 else None,
                    Sampling(temperature=0, logprobs=0),
                    cache_prompt=random_.random() < 0.8,
                    score_prompt=random_.random() < 0.2,
                )
            )
            submitted += 1
        if open_requests and random_.random() < 0.1:
            open_requests.pop(random_.randrange(len(open_requests))).cancel()
        driver.scheduler.step()
        driver.check()
    counters = driver.scheduler.counters
    ended = counters.finished + counters.failed + counters.cancelled
    assert (ended, counters.failed) == (400, 0)
    assert driver.scheduler.kv.evictions > 0
    assert driver.scheduler.kv.prefix_hits > 0
    driver.scheduler.kv.evict_all()
    assert driver.scheduler.kv.account.used == driver.scheduler.kv.account.span == 0
    driver.check()


@both_layouts
def test_as_many_sequences_as_llama_cpp_allows(drive: Drive, layout: str) -> None:
    driver = drive(
        kv_layout=layout, kv_max_sequences=256, engine_batch_size=512, engine_micro_batch_size=512
    )
    requests = [driver.submit(prompt(seed, 2), 3) for seed in range(257)]
    driver.scheduler.step()
    assert len(driver.scheduler.running) == 256
    driver.run()
    driver.check()
    assert all(len(driver.tokens(request)) == 3 for request in requests)
