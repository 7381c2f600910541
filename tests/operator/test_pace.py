"""The bound of a status's writes."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from llama_operator.names import Key
from llama_operator.pace import BURST, EVERY, Pace
from tests.operator.objects import NOW

CHAT, OTHER = Key("default", "chat"), Key("default", "other")
AT_ONCE = timedelta(0)


def test_the_first_writes_are_made_at_once_and_then_one_at_a_time() -> None:
    pace = Pace()
    for _ in range(BURST):
        assert pace.due(CHAT, AT_ONCE, NOW) <= NOW
        pace.written(CHAT, NOW)

    assert pace.due(CHAT, AT_ONCE, NOW) == NOW + EVERY
    assert pace.due(OTHER, AT_ONCE, NOW) <= NOW
    pace.forget(CHAT)
    assert pace.due(CHAT, AT_ONCE, NOW) <= NOW


def test_what_may_wait_waits_from_the_last_write_on() -> None:
    pace = Pace()
    assert pace.due(CHAT, timedelta(minutes=5), NOW) <= NOW
    pace.written(CHAT, NOW)

    assert pace.due(CHAT, timedelta(minutes=5), NOW) == NOW + timedelta(minutes=5)


def test_a_clock_that_went_back_makes_nobody_wait_for_it() -> None:
    pace = Pace()
    for _ in range(BURST):
        pace.written(CHAT, NOW)
    before = NOW - timedelta(days=1)

    assert pace.due(CHAT, timedelta(minutes=5), before) <= before


@given(st.lists(st.floats(0, 30), min_size=1, max_size=400))
def test_an_hour_has_a_bound_whatever_happens(gaps: list[float]) -> None:
    pace, now, written = Pace(), NOW, 0
    for gap in gaps * 10:
        now += timedelta(seconds=gap)
        if now > NOW + timedelta(hours=1):
            break
        if pace.due(CHAT, AT_ONCE, now) <= now:
            pace.written(CHAT, now)
            written += 1

    assert written <= BURST + timedelta(hours=1) / EVERY
