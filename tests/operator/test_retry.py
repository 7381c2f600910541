from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from llama_operator.retry import backoff, format_avoided_nodes, parse_avoided_nodes, parse_time

NAMES = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?", fullmatch=True)
MOMENTS = st.integers(1_600_000_000, 4_000_000_000).map(
    lambda seconds: datetime.fromtimestamp(seconds, UTC)
)


def test_the_wait_doubles_from_ten_seconds_to_ten_minutes() -> None:
    waits = [backoff(count).total_seconds() for count in range(1, 10)]

    assert waits == [10, 20, 40, 80, 160, 320, 600, 600, 600]


def test_ten_minutes_of_refusals_are_few() -> None:
    elapsed, pods = timedelta(0), 1
    while (elapsed := elapsed + backoff(pods)) < timedelta(minutes=10):
        pods += 1

    assert pods < 10


@given(st.integers(-5, 10**9))
def test_every_count_has_a_wait(count: int) -> None:
    assert timedelta(seconds=10) <= backoff(count) <= timedelta(minutes=10)


@given(st.dictionaries(NAMES, MOMENTS, max_size=5))
def test_avoided_nodes_are_read_as_they_were_written(nodes: dict[str, datetime]) -> None:
    assert parse_avoided_nodes(format_avoided_nodes(nodes)) == nodes


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    parse_avoided_nodes(text)
    parse_time(text)


def test_a_time_without_a_zone_is_none() -> None:
    assert parse_time("2026-06-01T12:00:00") is None
    assert parse_time(None) is None
