"""Moments of a cron line over years of instants in many zones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llama_operator.restart.schedule import Schedule, Unusable, read_schedule

ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/St_Johns",
    "Australia/Lord_Howe",  # goes back by half an hour
    "Asia/Kolkata",
    "Pacific/Apia",  # left out a whole day in 2011
    "Africa/Casablanca",
    "America/Havana",  # changes at midnight
    "Europe/Dublin",  # negative summer time
)
LINES = (
    "0 3 * * *",
    "30 2 * * *",
    "*/10 * * * *",
    "0 * * * *",
    "0 0 * * *",
    "15 1 * * SUN",
    "0 12 1 * *",
    "59 23 31 12 *",
    "5,35 0-3 * * MON-fri",
)
HOUR = timedelta(hours=1)
INSTANTS = st.integers(1230768000, 2177452800).map(
    lambda second: datetime.fromtimestamp(second, UTC)
)


def schedule(
    line: str = "0 3 * * *",
    zone: str = "UTC",
    *,
    window: timedelta = 2 * HOUR,
    jitter: timedelta = timedelta(0),
    uid: str = "uid",
) -> Schedule:
    return read_schedule(line, zone, window=window, jitter=jitter, uid=uid)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "line", "after", "expected"),
    [
        # Clocks go from 2:00 to 3:00 on 29 March 2026.
        ("Europe/Berlin", "30 2 * * *", "2026-03-28 12:00", "2026-03-29 01:00"),
        ("Europe/Berlin", "30 2 * * *", "2026-03-29 01:00", "2026-03-30 00:30"),
        ("Europe/Berlin", "0 3 * * *", "2026-03-28 12:00", "2026-03-29 01:00"),
        # And from 3:00 back to 2:00 on 25 October 2026: the first 2:30 counts.
        ("Europe/Berlin", "30 2 * * *", "2026-10-24 12:00", "2026-10-25 00:30"),
        ("Europe/Berlin", "30 2 * * *", "2026-10-25 00:30", "2026-10-26 01:30"),
        ("America/New_York", "30 2 * * *", "2026-03-07 12:00", "2026-03-08 07:00"),
        ("America/New_York", "30 1 * * *", "2026-10-31 12:00", "2026-11-01 05:30"),
        ("America/New_York", "30 1 * * *", "2026-11-01 05:30", "2026-11-02 06:30"),
        ("Australia/Lord_Howe", "15 2 * * *", "2026-10-03 12:00", "2026-10-03 15:30"),
        ("Pacific/Apia", "0 12 30 12 *", "2011-12-01 00:00", "2011-12-30 10:00"),
    ],
)
def test_a_clock_change(zone: str, line: str, after: str, expected: str) -> None:
    found = schedule(line, zone)

    assert found.next_slot(utc(after)) == utc(expected)
    assert found.last_slot(utc(expected)) == utc(expected)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(LINES), st.sampled_from(ZONES), INSTANTS)
def test_next_and_last_are_neighbours(line: str, zone: str, moment: datetime) -> None:
    found = schedule(line, zone)

    following, last = found.next_slot(moment), found.last_slot(moment)

    assert last <= moment < following
    assert found.next_slot(last) == following
    assert found.last_slot(following) == following
    assert found.last_slot(following - timedelta(seconds=1)) == last


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(ZONES), st.integers(0, 23), st.integers(0, 59), INSTANTS)
def test_every_day_of_the_calendar_has_one_slot(
    zone: str, hour: int, minute: int, moment: datetime
) -> None:
    """Each day once, at its time or, where the clock leaves that out, right afterwards."""
    found = schedule(f"{minute} {hour} * * *", zone)
    slot = found.next_slot(moment)
    for _ in range(200):
        following = found.next_slot(slot)
        assert timedelta(hours=20) < following - slot < timedelta(hours=49)
        local = following.astimezone(ZoneInfo(zone))
        if (local.hour, local.minute) != (hour, minute):
            second_before = (following - timedelta(seconds=1)).astimezone(ZoneInfo(zone))
            assert local.utcoffset() != second_before.utcoffset()
        slot = following


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(LINES), st.sampled_from(ZONES), INSTANTS, st.integers(0, 86400), st.text())
def test_jitter_is_fixed_bounded_and_keeps_the_order(
    line: str, zone: str, moment: datetime, seconds: int, uid: str
) -> None:
    jitter = timedelta(seconds=seconds)
    found = schedule(line, zone, jitter=jitter, uid=uid)
    slot = found.last_slot(moment)

    opening = found.opening(slot)

    assert opening == schedule(line, zone, jitter=jitter, uid=uid).opening(slot)
    assert slot <= opening <= slot + jitter
    assert opening < found.next_slot(slot)


def test_resources_are_spread_over_the_jitter() -> None:
    slot = utc("2026-06-01 03:00")
    openings = {schedule(jitter=HOUR, uid=f"uid-{n}").opening(slot) for n in range(50)}

    assert len(openings) > 40


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(LINES),
    st.sampled_from(ZONES),
    INSTANTS,
    st.integers(0, 7200),
    st.integers(60, 7200),
)
def test_a_window_is_due_from_its_opening_to_its_closing(
    line: str, zone: str, since: datetime, jitter: int, window: int
) -> None:
    found = schedule(line, zone, jitter=timedelta(seconds=jitter), window=timedelta(seconds=window))
    opening = found.next_opening(since, since)
    slot = found.last_slot(opening)
    second = timedelta(seconds=1)

    assert found.due(since, since) is None
    assert found.due(opening - second, since) is None or opening - second == since
    due = found.due(opening, since)
    assert due == (slot, opening + timedelta(seconds=window))
    assert found.due(opening, slot) is None
    assert found.next_opening(opening - second, since) == opening
    assert found.next_opening(opening, since) > opening


def test_missed_windows_do_not_pile_up() -> None:
    found = schedule()
    since = utc("2026-06-01 12:00")

    assert found.due(utc("2026-06-20 12:00"), since) is None
    due = found.due(utc("2026-06-20 04:30"), since)
    assert due == (utc("2026-06-20 03:00"), utc("2026-06-20 05:00"))


@pytest.mark.parametrize("zone", ["Mars/Olympus", "Europe", "../etc/passwd", "", "posixrules/x"])
def test_a_zone_that_does_not_exist(zone: str) -> None:
    with pytest.raises(Unusable, match=r"restart\.timeZone") as caught:
        schedule(zone=zone)

    assert caught.value.reason == "UnknownTimeZone"


@pytest.mark.parametrize("line", ["0 0 30 2 *", "0 0 31 2,4 *", "5-3 * * * *", "0 0 31 9,11 *"])
def test_a_line_that_never_comes(line: str) -> None:
    with pytest.raises(Unusable, match=r"restart\.schedule") as caught:
        schedule(line)

    assert caught.value.reason == "UnusableSchedule"
