"""Decode speed against its own baseline, without a model."""

from __future__ import annotations

import random

import pytest

from llama_runtime.engine.decode_speed import ENOUGH, DecodeSpeed, DecodeStep, Kind


def step(
    seconds: float, *, sequences: int = 2, depth: int = 100, used: int = 200, span: int = 200
) -> DecodeStep:
    return DecodeStep(sequences, depth, seconds, used, span, capacity=1000)


def feed(speed: DecodeSpeed, seconds: float, count: int, **changes: int) -> None:
    for _ in range(count):
        speed.record(step(seconds, **changes))


def test_nothing_is_said_before_both_are_measured() -> None:
    speed = DecodeSpeed()
    assert speed.reading is None
    feed(speed, 0.02, 32 + ENOUGH - 1)
    assert speed.reading is None
    feed(speed, 0.02, 1)
    assert speed.reading is not None
    assert speed.reading.slowdown == 0


def test_a_slow_cache_is_measured_against_its_young_self() -> None:
    speed = DecodeSpeed()
    feed(speed, 0.02, 40)
    feed(speed, 0.04, 40, span=800)
    reading = speed.reading
    assert reading is not None
    assert (reading.tokens_per_second, reading.baseline) == (50, 100)
    assert reading.slowdown == 0.5
    assert reading.depth == 100


def test_other_depths_and_other_numbers_of_sequences_are_not_compared() -> None:
    speed = DecodeSpeed()
    feed(speed, 0.02, 40)
    feed(speed, 0.08, 40, depth=5000)
    feed(speed, 0.08, 40, sequences=7)
    feed(speed, 0.08, 40, used=900, span=900)
    assert speed.reading is None


def test_a_wasteful_cache_gives_no_baseline() -> None:
    speed = DecodeSpeed()
    feed(speed, 0.04, 100, span=800)
    assert speed.reading is None
    feed(speed, 0.02, 32)
    assert speed.reading is not None
    assert speed.reading.slowdown == 0.5


def test_being_faster_is_no_negative_slowdown() -> None:
    speed = DecodeSpeed()
    feed(speed, 0.04, 32)
    feed(speed, 0.02, 32)
    assert speed.reading is not None
    assert speed.reading.slowdown == 0


def test_noise_does_not_move_it() -> None:
    speed, noise = DecodeSpeed(), random.Random(1)
    for _ in range(400):
        hiccup = 10 if noise.random() < 0.2 else 1
        speed.record(step(0.02 * hiccup * noise.uniform(0.97, 1.03)))
    assert speed.reading is not None
    assert speed.reading.slowdown < 0.05


def test_a_mark_compares_what_was_with_what_comes_at_the_same_depth() -> None:
    speed = DecodeSpeed()
    feed(speed, 0.02, 40)
    feed(speed, 0.04, 40, span=800)
    speed.mark()
    assert speed.reading is None
    assert speed.since_mark is None
    feed(speed, 0.01, 40, sequences=1)  # a kind that was not there before
    assert speed.since_mark is None
    feed(speed, 0.02, ENOUGH)
    compared = speed.since_mark
    assert compared is not None
    assert (compared.before, compared.after) == (50, 100)
    feed(speed, 0.08, 40)
    assert speed.since_mark is compared
    speed.mark()
    assert speed.since_mark is None


@pytest.mark.parametrize(
    ("depth", "lowest"), [(1, 0), (255, 0), (256, 256), (4095, 3840), (100_000, 98304)]
)
def test_kinds_are_as_fine_as_attention_at_first_and_coarser_later(depth: int, lowest: int) -> None:
    kind: Kind = step(1, depth=depth).kind
    assert kind[1] == lowest
    assert kind[1] <= depth


def test_the_number_of_kinds_is_bounded() -> None:
    speed = DecodeSpeed()
    for sequences in range(1, 3000):
        speed.record(step(0.02, sequences=sequences))
    assert len(speed._speeds) == 1024
