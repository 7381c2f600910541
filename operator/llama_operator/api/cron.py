"""The shape of a cron line, checked at apply."""

from __future__ import annotations

from typing import Final

_MONTHS = "JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC"
_WEEKDAYS = "SUN|MON|TUE|WED|THU|FRI|SAT"


def _field(value: str) -> str:
    """A list of values, ranges and `*`, each with a step or without."""
    item = rf"(\*|({value})(-({value}))?)(/[1-9][0-9]?)?"
    return rf"{item}(,{item})*"


CRON_PATTERN: Final = (
    "(?i)^"
    + " +".join(
        _field(value)
        for value in (
            "[0-5]?[0-9]",
            "[01]?[0-9]|2[0-3]",
            "0?[1-9]|[12][0-9]|3[01]",
            f"0?[1-9]|1[0-2]|{_MONTHS}",
            f"0?[0-7]|{_WEEKDAYS}",
        )
    )
    + "$"
)
"""Minute, hour, day of the month, month and weekday, in RE2's syntax and Python's."""

_FEBRUARY = "0?2|FEB"
_SHORT = "0?[469]|11|APR|JUN|SEP|NOV"

NEVER_PATTERN: Final = (
    r"(?i)^[^ ]+ +[^ ]+ +"
    rf"((30|31)(,(30|31))* +({_FEBRUARY})|31 +({_FEBRUARY}|{_SHORT})(,({_FEBRUARY}|{_SHORT}))*)"
    r" +\*$"
)
"""A day of the month that none of the months has, and no weekday beside it."""
