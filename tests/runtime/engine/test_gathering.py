from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from llama_runtime.engine.batch import Row
from llama_runtime.engine.context import Context, State
from llama_runtime.engine.neighbours import groups
from llama_runtime.generation import Finished
from tests.runtime.engine.driver import Drive, Driver, prompt


def running_groups(driver: Driver) -> int:
    return groups([sequence.id for sequence in driver.scheduler.running])


def scattered(driver: Driver) -> list[Any]:
    """Eight requests of which every other one has just ended."""
    short, long = 3, 60
    requests = [
        driver.submit(prompt(seed, 20 + seed), short if seed % 2 else long) for seed in range(8)
    ]
    while any(driver.end(request) is None for request in requests[1::2]):
        driver.scheduler.step()
    return requests


def test_what_runs_is_side_by_side_again(drive: Drive) -> None:
    driver = drive(kv_max_sequences=8, engine_batch_size=512)
    alone = drive(kv_max_sequences=8, engine_batch_size=512)
    requests = scattered(driver)
    assert running_groups(driver) == 4
    driver.scheduler.step()
    assert running_groups(driver) == 1
    # Sequence 6 went to 1, or 0 to 5 and so on: as few as possible.
    assert driver.scheduler.gathering.moved == 2
    driver.check()
    driver.run()
    for seed, request in enumerate(requests):
        single = alone.submit(prompt(seed, 20 + seed), len(driver.tokens(request)))
        alone.run()
        assert driver.tokens(request) == alone.tokens(single)
    # What was cached moved as well, and is still found under its new id.
    again = driver.submit(prompt(1, 21), 2)
    driver.run()
    end = driver.end(again)
    assert isinstance(end, Finished)
    assert end.timings.cached_tokens == 20


def test_a_move_waits_until_the_gaps_have_cost_as_much(drive: Drive) -> None:
    driver = drive(kv_max_sequences=8, engine_batch_size=512)
    requests = scattered(driver)
    gathering = driver.scheduler.gathering
    kv = driver.scheduler.kv
    gathering._weights_bytes = round(kv.cell_bytes * 50)
    steps = 0
    while running_groups(driver) > 1:
        driver.scheduler.step()
        steps += 1
    # Two sequences of some 25 cells change places with two of some 25: 100 cells, both ways.
    assert 1 <= steps <= 200 / (3 * 50) + 2
    driver.run()
    assert all(driver.end(request) for request in requests)


def test_nothing_moves_in_unified_where_a_place_means_nothing(drive: Drive) -> None:
    driver = drive(kv_layout="Unified", kv_max_sequences=8, engine_batch_size=512)
    scattered(driver)
    driver.run()
    assert driver.scheduler.gathering.moved == 0


def test_a_sequence_that_can_not_be_put_back_is_computed_again(drive: Drive) -> None:
    class Forgetful(Context):
        def restore(self, sequence: int, data: State) -> bool:
            self.cut(sequence, 0)
            return False

    driver = drive(Forgetful, kv_max_sequences=8, engine_batch_size=512)
    healthy = drive(kv_max_sequences=8, engine_batch_size=512)
    requests, expected = scattered(driver), scattered(healthy)
    driver.scheduler.step()
    driver.check()
    driver.run()
    healthy.run()
    assert driver.scheduler.gathering.moved > 0
    assert [driver.tokens(one) for one in requests] == [healthy.tokens(one) for one in expected]


@pytest.mark.parametrize("seed", range(3))
def test_random_arrivals_leave_nobody_scattered_for_long(drive: Drive, seed: int) -> None:
    decodes = [0, 0]

    class Counting(Context):
        def decode(self, rows: Sequence[Row]) -> tuple[int, list[int]]:
            decodes[running_groups(driver) > 1] += 1
            return super().decode(rows)

    driver = drive(Counting, kv_max_sequences=12)
    # The weights of SmolLM2 are as large as 4000 of its cells.
    driver.scheduler.gathering._weights_bytes = round(driver.scheduler.kv.cell_bytes * 4000)
    alone = drive(kv_max_sequences=12)
    random_ = random.Random(seed)
    asked: list[tuple[list[int], Any]] = []
    while len(asked) < 60 or not driver.scheduler.idle:
        if len(asked) < 60 and random_.random() < 0.3:
            stem = prompt(random_.randint(0, 5), random_.randint(0, 60))
            question = [*stem, *prompt(random_.randint(6, 9), random_.randint(1, 30))]
            asked.append((question, driver.submit(question, random_.randint(1, 30))))
        driver.scheduler.step()
        driver.check()
    together, apart = decodes
    assert apart <= together / 20
    assert driver.scheduler.gathering.moved > 0
    for question, request in asked[::4]:
        single = alone.submit(question, len(driver.tokens(request)), cache_prompt=False)
        alone.run()
        assert driver.tokens(request) == alone.tokens(single)
