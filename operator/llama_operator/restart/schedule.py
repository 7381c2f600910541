"""The moments of a cron line in a time zone, as instants.

cronsim walks the wall clock; which instant a wall-clock time is, is settled here: one that
does not exist (clocks went forward) is the first instant after the gap, one that exists
twice (clocks went back) is the first of the two.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

_OVERLAP = timedelta(hours=3)
"""A clock that goes back goes back by less, within less than this time."""


class Unusable(ValueError):
    """The schedule cannot be used; `reason` is one CamelCase word, the text a sentence."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Schedule:
    """When windows open and how long they are; made by `read_schedule`."""

    line: str
    zone: ZoneInfo
    window: timedelta
    jitter: timedelta
    uid: str
    """Of the resource: windows of different resources are spread by it."""

    def next_slot(self, after: datetime) -> datetime:
        """The first moment of the schedule after an instant, in UTC."""
        wall = after.astimezone(self.zone).replace(tzinfo=None)
        return next(found for found in self._walk(wall) if found > after)

    def last_slot(self, until: datetime) -> datetime:
        """The last moment of the schedule that is not after an instant, in UTC."""
        local = until.astimezone(self.zone)
        # In the second pass of an overlap, times that the clock has yet to show are over.
        earlier = (until - _OVERLAP).astimezone(self.zone).utcoffset() or timedelta(0)
        back = max(earlier - (local.utcoffset() or timedelta(0)), timedelta(0))
        wall = local.replace(tzinfo=None, second=0, microsecond=0) + back + timedelta(minutes=1)
        return next(found for found in self._walk(wall, reverse=True) if found <= until)

    def opening(self, slot: datetime) -> datetime:
        """When the window of a slot opens: up to `jitter` later, and before the next slot."""
        room = min(self.jitter, self.next_slot(slot) - slot - timedelta(seconds=1))
        seconds = int(room.total_seconds())
        if seconds <= 0:
            return slot
        digest = hashlib.sha256(f"{self.uid}/{slot.isoformat()}".encode()).digest()
        return slot + timedelta(seconds=int.from_bytes(digest[:8]) % (seconds + 1))

    def next_opening(self, after: datetime, since: datetime) -> datetime:
        """The first opening after an instant, of a slot that is later than `since`."""
        last = self.last_slot(after)
        if last > since and (opening := self.opening(last)) > after:
            return opening
        return self.opening(self.next_slot(max(after, since)))

    def due(self, now: datetime, since: datetime) -> tuple[datetime, datetime] | None:
        """Slot and closing of the window that is open now; None when none is.

        Only the latest slot counts, and only when it is later than `since`: windows that
        were missed do not pile up.
        """
        slot = self.last_slot(now)
        if slot <= since:
            return None
        opening = self.opening(slot)
        closing = opening + self.window
        return (slot, closing) if opening <= now < closing else None

    def _walk(self, wall: datetime, *, reverse: bool = False) -> Iterator[datetime]:
        for moment in CronSim(self.line, wall, reverse=reverse):
            yield self._instant(moment)

    def _instant(self, wall: datetime) -> datetime:
        """The instant at which the clock shows `wall` first, or passes it."""
        local = wall.replace(tzinfo=self.zone)
        instant = local.astimezone(UTC)
        shown = instant.astimezone(self.zone).replace(tzinfo=None)
        if shown == wall:
            return instant
        # In a gap, fold 0 counts with the offset before it, and so ends up as far behind the
        # gap's end as `wall` is behind its beginning.
        before = local.utcoffset() or timedelta(0)
        after = local.replace(fold=1).utcoffset() or timedelta(0)
        low, high = instant - abs(before - after), instant
        while high - low > timedelta(seconds=1):
            middle = low + (high - low) // 2
            if middle.astimezone(self.zone).utcoffset() == before:
                low = middle
            else:
                high = middle
        return high.replace(microsecond=0)


def read_schedule(
    line: str, time_zone: str, *, window: timedelta, jitter: timedelta, uid: str
) -> Schedule:
    """A schedule that has moments. Raises Unusable."""
    try:
        zone = ZoneInfo(time_zone)
    except (OSError, ValueError, KeyError) as error:
        raise Unusable(
            "UnknownTimeZone",
            f"The time zone database has no {time_zone}: correct restart.timeZone, "
            "such as Europe/Berlin.",
        ) from error
    try:
        next(iter(CronSim(line, datetime(2026, 1, 1))))  # noqa: DTZ001 - a wall clock
    except CronSimError as error:
        raise Unusable(
            "UnusableSchedule",
            f"restart.schedule {line!r} names no moment ({error}): correct it, "
            "such as 0 3 * * * for every night at three.",
        ) from error
    except (StopIteration, RuntimeError) as error:
        raise Unusable(
            "UnusableSchedule",
            f"restart.schedule {line!r} names no day that exists: correct it, "
            "such as 0 3 * * * for every night at three.",
        ) from error
    return Schedule(line, zone, window, jitter, uid)
