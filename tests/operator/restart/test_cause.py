"""Thresholds, the cheapest cure, and what a restart has gained."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llama_operator.api import LastRestart, Measurement, Restart
from llama_operator.restart.cause import always, fragmented
from llama_operator.restart.gain import gained, tell_gain
from llama_operator.restart.measure import measure
from llama_operator.runtime_status import RuntimeStatus
from tests.operator.objects import a_runtime

RATIOS = st.none() | st.floats(0, 1)


def a_reading(
    span: float | None = 0.0,
    slowdown: float | None = 0.0,
    growth: float | None = 0.0,
    verdict: str = "Aligned",
) -> RuntimeStatus:
    return a_runtime(
        kv={"spanRatio": span, "decode": {"tokensPerSecond": 10.0, "slowdown": slowdown}},
        memory={"rssBytes": 1000, "growth": growth},
        numa={"verdict": verdict},
    )


def judged(reading: RuntimeStatus, last: LastRestart | None = None, **restart: Any) -> Any:
    measured = measure(reading)
    assert measured is not None
    return fragmented(Restart.model_validate(restart), reading, measured, last)


@pytest.mark.parametrize(
    ("reading", "reason", "method"),
    [
        (a_reading(span=0.4), "SpanRatio", "Compact"),
        (a_reading(growth=0.5), "MemoryGrowth", "Container"),
        (a_reading(slowdown=0.3), "DecodeSlowdown", "Container"),
        (a_reading(slowdown=0.3, span=0.2), "DecodeSlowdown", "Compact"),
        (a_reading(verdict="GpuRemote"), "Misplaced", "Pod"),
        (a_reading(span=0.4, growth=0.5), "MemoryGrowth", "Container"),
        (a_reading(span=0.4, growth=0.5, verdict="MemoryRemote"), "Misplaced", "Pod"),
    ],
)
def test_the_cheapest_method_that_cures_the_reason(
    reading: RuntimeStatus, reason: str, method: str
) -> None:
    cause = judged(reading)

    assert (cause.reason, cause.method) == (reason, method)
    assert judged(reading, method="Pod").method == "Pod"


def test_all_numbers_that_are_over_are_told() -> None:
    message = judged(a_reading(span=0.4, slowdown=0.25, growth=0.5)).message

    assert "0.40 (threshold 0.30)" in message
    assert "25% slower (threshold 20%)" in message
    assert "grown by 50% (threshold 30%)" in message


def test_a_compact_that_gained_nothing_is_followed_by_a_container() -> None:
    same = Measurement(span_ratio=0.2, decode_tokens_per_second=10.0)
    last = LastRestart(
        time=datetime(2026, 6, 1, tzinfo=UTC),
        reason="DecodeSlowdown",
        method="Compact",
        before=same,
        after=same,
    )

    assert judged(a_reading(slowdown=0.3, span=0.2), last).method == "Container"


def test_another_placement_is_tried_once() -> None:
    last = LastRestart(time=datetime(2026, 6, 1, tzinfo=UTC), reason="Misplaced", method="Pod")

    assert judged(a_reading(verdict="GpuRemote"), last) is None


@given(RATIOS, RATIOS, RATIOS, st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_a_cause_is_named_exactly_when_something_is_over(
    span: float | None,
    slowdown: float | None,
    growth: float | None,
    most_span: float,
    most_slowdown: float,
    most_growth: float,
) -> None:
    reading = a_reading(span, slowdown, growth)
    measured = measure(reading)
    assert measured is not None
    thresholds = {
        "spanRatio": most_span,
        "decodeSlowdown": most_slowdown,
        "memoryGrowth": most_growth,
    }
    pairs = (
        (measured.span_ratio, most_span),
        (measured.decode_slowdown, most_slowdown),
        (measured.memory_growth, most_growth),
    )

    found = judged(reading, thresholds=thresholds)

    assert (found is not None) == any(value is not None and value >= most for value, most in pairs)


def test_always_is_a_container_unless_another_method_is_named() -> None:
    assert always(Restart(), by_hand=False).method == "Container"
    assert always(Restart(method="Compact"), by_hand=True).method == "Compact"


@given(RATIOS, RATIOS)
def test_a_gain_and_what_is_told_of_it_agree(before: float | None, after: float | None) -> None:
    old, new = Measurement(span_ratio=before), Measurement(span_ratio=after)
    verdict, text = gained(old, new), tell_gain(old, new)

    assert text.startswith(
        {
            None: "What it gained is not measured yet",
            True: "It gained something",
            False: "It gained nothing",
        }[verdict]
    )


def test_the_placement_is_compared() -> None:
    here = Measurement(span_ratio=0.5, cpus="4-7", mems="1")

    assert "same CPUs (4-7) and memory nodes (1)" in tell_gain(here, here)
    there = here.model_copy(update={"cpus": "0-3", "mems": "0"})
    assert "has CPUs 0-3 and memory nodes 0" in tell_gain(here, there)


def test_the_gpus_memory_counts_where_it_has_grown_more() -> None:
    memory = {"rssBytes": 1, "growth": 0.1, "vramBytes": 15, "vramBytesAtLoad": 10}
    measured = measure(a_runtime(memory=memory))

    assert measured is not None
    assert (measured.memory_growth, measured.memory_bytes) == (0.5, 16)
