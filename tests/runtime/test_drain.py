"""How long a draining process takes late requests."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from llama_runtime.drain import LONGEST_SECONDS, QUIET_SECONDS, seconds_to_refusal

SECONDS = st.floats(0, 1000)


def left(now: float, last_arrival: float | None) -> float:
    return seconds_to_refusal(now, started=100, last_arrival=last_arrival, delay=5, timeout=300)


def test_the_delay_is_waited_for() -> None:
    assert left(100, None) == 5
    assert left(104, 99) == 1
    assert left(105, 99) == 0


def test_who_still_comes_is_waited_for() -> None:
    assert left(105, 104.75) == QUIET_SECONDS - 0.25
    assert left(110, 109.5) == QUIET_SECONDS - 0.5
    assert left(110, 109) == 0


def test_but_not_for_ever() -> None:
    assert left(105 + LONGEST_SECONDS, 105 + LONGEST_SECONDS) == 0


@given(SECONDS, st.none() | SECONDS, SECONDS, SECONDS, SECONDS)
def test_the_wait_is_within_the_drain(
    now: float, last_arrival: float | None, started: float, delay: float, timeout: float
) -> None:
    now, arrival = started + now, None if last_arrival is None else started + last_arrival
    seconds = seconds_to_refusal(
        now, started=started, last_arrival=arrival, delay=delay, timeout=timeout
    )
    assert seconds >= 0
    assert now + seconds <= max(now, started + delay + min(LONGEST_SECONDS, timeout / 2)) + 1e-6
    assert seconds == 0 or now + seconds >= min(started + delay, now + seconds)
    if now < started + delay:
        assert now + seconds >= started + delay - 1e-6
