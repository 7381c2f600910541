from __future__ import annotations

from collections import Counter

import pytest

from tests.bench.runtime import texts
from tests.bench.runtime.load import Answer, tokens_per_second
from tests.bench.runtime.scenarios import chats, cures, decode, long_prompt, throughput


def answer(client: str, started: float, *times: float, chat: str = "", cached: int = 0) -> Answer:
    return Answer(client, chat, started, times, len(times), 100, cached, "")


def test_throughput_counts_all_tokens_over_the_whole_time() -> None:
    answers = [answer("a", 0.0, 1.0, 2.0), answer("b", 1.0, 2.0, 3.0, 4.0)]
    assert tokens_per_second(answers) == pytest.approx(5 / 4)


def test_every_question_of_a_load_is_different() -> None:
    questions = [
        step.message for seed in ("1", "2") for streams in (1, 16)
        for client in throughput.clients(streams, 3, seed) for step in client.steps
    ]  # fmt: skip
    assert len(set(questions)) == len(questions) == 2 * 17 * 3


def test_texts_have_a_length_and_depend_on_their_seed_alone() -> None:
    assert len(texts.text(50, "a").split()) == 50
    assert texts.text(50, "a") == texts.text(50, "a") != texts.text(50, "b")


def test_gaps_are_those_that_overlap_the_time() -> None:
    stream = answer("s", 0.0, 1.0, 2.0, 5.0, 6.0, 7.0)
    assert long_prompt.gaps_within([stream], 3.0, 5.5) == [3.0, 1.0]
    assert long_prompt.gaps_within([stream], 10.0, 11.0) == []


def test_each_chat_has_all_its_turns_and_a_long_first_message() -> None:
    clients = chats.clients("seed", turns=3)
    assert len(clients) == chats.CLIENTS
    for client in clients:
        assert set(Counter(step.chat for step in client.steps).values()) == {3}
        first = {step.chat: step for step in reversed(client.steps)}
        for step in client.steps:
            is_first = step is first[step.chat]
            assert (len(step.message.split()) > chats.FIRST_MESSAGE_TOKENS) == is_first


def test_later_turns_leave_out_the_first_of_each_chat_of_each_client() -> None:
    result = chats.later_turns(
        [
            answer("a", 5.0, 5.5, chat="1", cached=70),
            answer("a", 0.0, 2.0, chat="1"),
            answer("b", 1.0, 2.0, chat="1", cached=50),
            answer("a", 2.0, 4.0, chat="2"),
        ]
    )
    assert result == chats.Result(first_tokens=(0.5,), cached=70, prompt=100)


def test_decode_speed_is_that_of_the_time_in_which_all_decode() -> None:
    early = [0.0, 1.0, 2.0, 3.0, 4.0]
    late = [2.0, 3.0, 4.0, 5.0]
    assert decode.speed_while_all_decode([early, late]) == pytest.approx(2.0)


def test_batched_bench_prints_speeds_among_other_lines() -> None:
    output = 'main: n_kv_max = 4096\n{"pl": 1, "speed_tg": 101.5}\n{"pl": 16, "speed_tg": 240.0}\n'
    assert decode.batched_bench_speeds(output) == {1: 101.5, 16: 240.0}


def test_cures_are_compared_with_a_fresh_context_at_the_same_depth() -> None:
    measured = dict.fromkeys(
        (
            *("fresh_first", "fresh_second", "fragmented", "compacted"),
            *("span_before", "span_after", "compacted_bytes", "first_keep_bytes"),
            *("compact_seconds", "rebuild_seconds", "clear_seconds"),
            *("first_keep_seconds", "kept_restore_seconds"),
            *("kept_first_token_seconds", "lost_first_token_seconds"),
        ),
        1.0,
    )
    shown = cures.figures(
        "Q4_0",
        [
            measured | {"fresh_first": 10.0, "fragmented": 5.0, "compact_seconds": 0.05},
            measured | {"fresh_second": 10.0, "compacted": 9.9, "kept_first_token_seconds": 0.1},
        ],
    )
    values = {figure.name.removeprefix("Q4_0, "): figure for figure in shown}
    fragmented = values["Unified, one sequence behind 15 that are gone, over a fresh context"]
    assert (fragmented.value, fragmented.target) == (0.5, None)
    compacted = values["Unified, after Compact, over a fresh context at the same depth"]
    assert compacted.value == pytest.approx(0.99)
    assert compacted.met
    assert values["Compact"].value == 50
    first_token = values["first token of a known chat after a restart, kept over lost"]
    assert (first_token.value, first_token.better) == (0.1, "lower")
