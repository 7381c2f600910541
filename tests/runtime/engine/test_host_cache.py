from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llama_runtime.engine import context
from llama_runtime.engine.host_cache import HostCache
from llama_runtime.engine.stream import Request
from llama_runtime.generation import Finished, ModelUnusable
from tests.runtime.engine.driver import Drive, Driver, both_layouts, prompt
from tests.runtime.engine.test_prefix_cache import cached_tokens

MUCH = 1 << 24


@given(
    st.integers(0, 900),
    st.lists(
        st.tuples(st.lists(st.integers(0, 1), min_size=1, max_size=8), st.integers(1, 400)),
        max_size=40,
    ),
)
def test_it_never_holds_more_than_its_limit_and_no_beginnings(
    limit: int, saved: list[tuple[list[int], int]]
) -> None:
    cache = HostCache(limit)
    for tokens, size in saved:
        array = np.array(tokens, np.int32)
        if cache.has_room_for(array, size):
            cache.add(array, np.zeros(size, np.uint8))
            assert cache.longest_match(array)[1] == len(tokens)
        held = list(cache._sequences.values())
        assert cache.bytes == sum(one.bytes for one in held) <= limit
        texts = ["".join(map(str, one.tokens)) for one in held]
        assert not any(
            b.startswith(a) for i, a in enumerate(texts) for j, b in enumerate(texts) if i != j
        )


def test_the_least_recently_used_goes_first() -> None:
    cache = HostCache(340)
    for first in range(3):
        cache.add(np.array([first, 9], np.int32), np.zeros(100, np.uint8))
    held, length = cache.longest_match(np.array([0, 9, 4], np.int32))
    assert held is not None
    assert length == 2
    cache.used(held, is_over=False)
    cache.add(np.array([5], np.int32), np.zeros(100, np.uint8))
    assert cache.evictions == 1
    assert [cache.longest_match(np.array([one, 9], np.int32))[1] for one in range(3)] == [2, 0, 2]
    cache.used(held, is_over=True)
    assert (len(cache), cache.bytes) == (2, 108 + 104)


def conversations(driver: Driver, count: int = 7) -> list[list[int]]:
    """Turns of more conversations than there are sequences: the first ones are evicted."""
    found = []
    for seed in range(count):
        request = driver.submit(prompt(seed, 60), 5)
        driver.run()
        found.append([*prompt(seed, 60), *driver.tokens(request)])
        driver.check()
    return found


@both_layouts
def test_an_evicted_conversation_goes_on_where_it_was(drive: Drive, layout: str) -> None:
    total = 256 if layout == "Unified" else None
    driver = drive(kv_layout=layout, kv_total_context=total, kv_host_cache=MUCH)
    without = drive(kv_layout=layout, kv_total_context=total)
    turns, expected = conversations(driver), conversations(without)
    assert driver.scheduler.kv.evictions >= 3
    later = driver.submit([*turns[0], *prompt(50, 10)], 5)
    driver.run()
    driver.check()
    assert cached_tokens(driver, later) == 64
    assert driver.scheduler.kv.host_hits == 1
    # It goes on in the context, and is no longer held twice.
    assert driver.scheduler.kv.host.longest_match(np.array(turns[0], np.int32))[1] < 10
    computed = without.submit([*expected[0], *prompt(50, 10)], 5)
    without.run()
    assert cached_tokens(without, computed) == 0
    if layout == "Partitioned":
        assert driver.tokens(later) == without.tokens(computed)


def test_what_is_shared_stays_for_the_next_one(drive: Drive) -> None:
    driver = drive(kv_host_cache=MUCH)
    conversations(driver)
    for seed in range(60, 63):
        request = driver.submit([*prompt(0, 50), *prompt(seed, 20)], 3)
        driver.run()
        driver.check()
        assert cached_tokens(driver, request) >= 50
        conversations(driver, 5)
    assert driver.scheduler.kv.host_hits >= 3


def test_off_by_default_and_never_more_than_allowed(drive: Drive) -> None:
    driver = drive()
    conversations(driver)
    assert len(driver.scheduler.kv.host) == 0
    size = driver.scheduler.kv.context.size_of(3)
    small = drive(kv_host_cache=size * 2)
    conversations(small, 12)
    host = small.scheduler.kv.host
    assert len(host) in (1, 2)
    assert host.evictions > 0
    tiny = drive(kv_host_cache=100)
    conversations(tiny)
    assert len(tiny.scheduler.kv.host) == 0


@both_layouts
def test_random_traffic_with_a_small_host_cache(drive: Drive, layout: str) -> None:
    driver = drive(
        kv_layout=layout,
        kv_total_context=400 if layout == "Unified" else None,
        kv_host_cache=100_000,
    )
    alone = drive(kv_layout=layout)
    random_ = random.Random(5)
    asked: list[tuple[list[int], Request]] = []
    while len(asked) < 120 or not driver.scheduler.idle:
        if len(asked) < 120 and random_.random() < 0.4:
            question = [
                *prompt(random_.randint(0, 9), random_.randint(30, 90)),
                *prompt(random_.randint(10, 30), random_.randint(1, 20)),
            ]
            asked.append((question, driver.submit(question, random_.randint(1, 8))))
        driver.scheduler.step()
        driver.check()
    kv = driver.scheduler.kv
    assert kv.host_hits > 0
    assert kv.host.evictions > 0
    for _, request in asked:
        end = driver.end(request)
        assert isinstance(end, Finished)
    for question, request in asked[::10]:
        single = alone.submit(question, len(driver.tokens(request)), cache_prompt=False)
        alone.run()
        if layout == "Partitioned":
            assert driver.tokens(request) == alone.tokens(single)


def test_more_than_the_machine_has_is_refused(
    drive: Drive, tiny_model_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "host_memory_limit", lambda: 1 << 30)
    with pytest.raises(ModelUnusable, match="hostCache") as refused:
        drive(kv_host_cache=2 << 30)
    assert refused.value.reason == "ContextTooLarge"
