"""How long a draining process still takes requests; no clock, no I/O.

A pod that is unready leaves its Service's endpoints, but each node's proxy hears of that at
its own time, later than any fixed delay on a busy cluster. A request that arrives shows that
some proxy has not heard yet.
"""

from __future__ import annotations

QUIET_SECONDS = 1.0
LONGEST_SECONDS = 30.0


def seconds_to_refusal(
    now: float, *, started: float, last_arrival: float | None, delay: float, timeout: float
) -> float:
    """Seconds until requests may be refused, as far as is known now; 0: from now on.

    That is after ``delay`` and once nobody came for a moment, but at the latest LONGEST_SECONDS,
    or half of ``timeout`` (drainTimeout), after the delay. ``started`` is when the drain began;
    all but ``delay`` and ``timeout`` are times of one clock.
    """
    earliest = started + delay
    if last_arrival is None or last_arrival < started:
        return max(0.0, earliest - now)
    latest = earliest + min(LONGEST_SECONDS, timeout / 2)
    return max(0.0, min(max(earliest, last_arrival + QUIET_SECONDS), latest) - now)
