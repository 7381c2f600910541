from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llama_runtime.engine.prefix_cache import PrefixCache, common_prefix
from llama_runtime.generation import Finished
from tests.runtime.engine.driver import Drive, Driver, both_layouts, prompt

tokens = st.lists(st.integers(0, 2), max_size=200)


@given(tokens, tokens)
def test_common_prefix(a: list[int], b: list[int]) -> None:
    length = common_prefix(np.array(a, np.int32), np.array(b, np.int32))
    assert a[:length] == b[:length]
    assert length == min(len(a), len(b)) or a[length] != b[length]


def test_the_longest_match_is_found_and_the_least_recently_used_goes_first() -> None:
    cache = PrefixCache()
    for sequence, stored in enumerate(([1, 2, 3], [1, 2, 3, 4], [1, 2])):
        cache.add(sequence, np.array(stored, np.int32))
    best, length = cache.longest_match(np.array([1, 2, 3, 4, 5], np.int32))
    assert best is not None
    assert (best.id, length) == (1, 4)
    assert cache.longest_match(np.array([9], np.int32)) == (None, 0)
    cache.touch(0)
    victims = []
    while (victim := cache.least_recently_used()) is not None:
        victims.append(victim.id)
        cache.remove(victim.id)
    assert victims == [1, 2, 0]


def cached_tokens(driver: Driver, request: object) -> int:
    end = driver.end(request)  # type: ignore[arg-type]
    assert isinstance(end, Finished)
    return end.timings.cached_tokens


@both_layouts
def test_a_later_turn_computes_only_what_is_new(drive: Drive, layout: str) -> None:
    driver = drive(kv_layout=layout)
    first = driver.submit(prompt(1, 50), 10)
    driver.run()
    conversation = [*prompt(1, 50), *driver.tokens(first)]
    computed = driver.scheduler.counters.prompt_tokens
    second = driver.submit([*conversation, *prompt(2, 20)], 10)
    driver.run()
    # The last generated token was never computed: nothing came behind it.
    assert cached_tokens(driver, second) == 59
    assert driver.scheduler.counters.prompt_tokens - computed == 21
    assert driver.scheduler.kv.prefix_hits == 1
    assert driver.scheduler.kv.cells_saved == 59
    driver.check()


@both_layouts
def test_what_comes_from_the_cache_gives_the_same_answer(drive: Drive, layout: str) -> None:
    question = [*prompt(1, 60), *prompt(2, 15)]
    fresh = drive(kv_layout=layout)
    expected = fresh.submit(question, 30)
    fresh.run()
    driver = drive(kv_layout=layout)
    driver.submit([*prompt(1, 60), *prompt(3, 15)], 30)
    driver.run()
    request = driver.submit(question, 30)
    driver.run()
    assert cached_tokens(driver, request) >= 60
    assert driver.tokens(request) == fresh.tokens(expected)


@both_layouts
def test_the_same_prompt_again_computes_one_token(drive: Drive, layout: str) -> None:
    driver = drive(kv_layout=layout)
    answers = []
    for _ in range(3):
        request = driver.submit(prompt(1, 50), 10)
        driver.run()
        answers.append(driver.tokens(request))
    assert answers[0] == answers[1] == answers[2]
    assert cached_tokens(driver, request) == 49


@both_layouts
def test_a_prefix_in_the_making_is_computed_once(drive: Drive, layout: str) -> None:
    """Sixteen clients arrive together with the same system prompt."""
    driver = drive(kv_layout=layout, kv_max_sequences=16)
    system = prompt(1, 150)
    requests = [driver.submit([*system, seed, *prompt(seed, 9)], 5) for seed in range(16)]
    driver.run()
    assert driver.scheduler.counters.prompt_tokens == 150 + 16 * 10
    assert [cached_tokens(driver, request) for request in requests] == [0, *[150] * 15]
    driver.check()
    alone = drive(kv_layout=layout)
    for request, seed in zip(requests, range(16), strict=True):
        single = alone.submit([*system, seed, *prompt(seed, 9)], 5, cache_prompt=False)
        alone.run()
        assert driver.tokens(request) == alone.tokens(single)


@both_layouts
def test_shared_prefixes_are_stored_once_in_the_unified_layout(drive: Drive, layout: str) -> None:
    driver = drive(kv_layout=layout)
    for seed in range(4):
        driver.submit([*prompt(1, 150), seed, *prompt(seed, 9)], 1)
    driver.run()
    used = {"Unified": 150 + 4 * 10, "Partitioned": 4 * 160}
    assert driver.scheduler.kv.account.used == used[layout]


@both_layouts
def test_when_the_first_leaves_another_goes_on_for_those_who_wait(
    drive: Drive, layout: str
) -> None:
    driver = drive(kv_layout=layout)
    system = prompt(1, 200)
    requests = [driver.submit([*system, seed, *prompt(seed, 9)], 5) for seed in range(4)]
    driver.scheduler.step()
    driver.scheduler.step()
    requests[0].cancel()
    driver.run()
    assert all(len(driver.tokens(request)) == 5 for request in requests[1:])
    assert driver.scheduler.counters.prompt_tokens <= 210 + 3 * 10
    driver.check()


@both_layouts
def test_the_least_recently_used_conversation_is_evicted(drive: Drive, layout: str) -> None:
    driver = drive(kv_layout=layout)
    conversations = [prompt(seed, 40) for seed in range(5)]
    for one in conversations[:4]:
        driver.submit(one, 2)
        driver.run()
    driver.submit([*conversations[0], 1, 2, 3], 2)
    driver.run()
    driver.submit(conversations[4], 2)
    driver.run()
    assert driver.scheduler.kv.evictions == 1
    hits = []
    for one in (conversations[0], conversations[1]):
        request = driver.submit(one, 1)
        driver.run()
        hits.append(cached_tokens(driver, request) > 0)
    assert hits == [True, False]


@both_layouts
def test_another_conversation_with_the_same_beginning_keeps_the_first(
    drive: Drive, layout: str
) -> None:
    driver = drive(kv_layout=layout)
    first, second = ([*prompt(1, 100), *prompt(seed, 80)] for seed in (2, 3))
    for one in (first, second, first):
        request = driver.submit(one, 2)
        driver.run()
    assert cached_tokens(driver, request) == 179
    assert driver.scheduler.kv.evictions == 0


@both_layouts
def test_a_chat_templates_beginning_is_computed_once(drive: Drive, layout: str) -> None:
    """Too short to copy a whole stream for; with free sequences and with none."""
    driver = drive(kv_layout=layout, kv_context_per_sequence=2048)
    questions = [[*prompt(1, 20), seed, *prompt(seed, 40)] for seed in range(10)]
    requests = []
    for question in questions:
        requests.append(driver.submit(question, 5))
        driver.run()
        driver.check()
    assert [cached_tokens(driver, request) for request in requests] == [0, *[20] * 9]
    alone = drive(kv_layout=layout, kv_context_per_sequence=2048)
    for request, question in zip(requests, questions, strict=True):
        single = alone.submit(question, 5, cache_prompt=False)
        alone.run()
        assert driver.tokens(request) == alone.tokens(single)


def test_who_has_to_go_leaves_what_the_next_prompt_begins_with(drive: Drive) -> None:
    driver = drive()
    for seed in range(4):
        driver.submit([*prompt(1, 8), seed, *prompt(seed, 40)], 5)
        driver.run()
    request = driver.submit([*prompt(1, 8), 9, *prompt(9, 40)], 5)
    driver.run()
    assert cached_tokens(driver, request) == 8
    assert driver.scheduler.kv.evictions == 1
    driver.check()


def test_a_private_request_takes_nothing_from_the_cache_and_leaves_nothing(
    drive: Drive,
) -> None:
    driver = drive()
    driver.submit(prompt(1, 50), 5)
    driver.run()
    private = driver.submit(prompt(1, 50), 5, cache_prompt=False)
    driver.run()
    assert cached_tokens(driver, private) == 0
    assert len(driver.scheduler.kv.cached) == 1


def test_cached_cells_make_room_for_running_sequences(drive: Drive) -> None:
    driver = drive(kv_layout="Unified", kv_total_context=512, kv_context_per_sequence=512)
    for seed in range(3):
        driver.submit(prompt(seed, 150), 10)
        driver.run()
    assert driver.scheduler.kv.account.used > 450
    request = driver.submit(prompt(9, 100), 400)
    driver.run()
    assert len(driver.tokens(request)) == 400
    assert driver.scheduler.kv.evictions == 3


@pytest.mark.parametrize(("shared", "expected"), [(3, 0), (20, 20)])
def test_a_copy_between_streams_must_be_worth_it(drive: Drive, shared: int, expected: int) -> None:
    """Copying moves the whole stream: not for three tokens of 256."""
    driver = drive()
    stem = prompt(1, 60)
    driver.submit(stem, 2)
    driver.run()
    request = driver.submit([*stem[:shared], *prompt(2, 30)], 2)
    driver.run()
    assert cached_tokens(driver, request) == expected
