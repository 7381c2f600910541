"""Durations and quantities: from the user's text to numbers, and back."""

from __future__ import annotations

import re
from decimal import Decimal

DURATION_PATTERN = r"^([0-9]{1,4}h)?([0-9]{1,5}m)?([0-9]{1,6}s)?$"
"""Go's duration syntax without fractions; also used, as it is, in the CRD's rules."""

_DURATION = re.compile(DURATION_PATTERN, re.ASCII)
_QUANTITY = re.compile(
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?", re.ASCII
)
_SUFFIXES = {
    **{unit: Decimal(10) ** (3 * power) for power, unit in enumerate("num", -3)},
    **{unit: Decimal(1000) ** power for power, unit in enumerate("kMGTPE", 1)},
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", 1)},
}
"""As apimachinery's resource.Quantity has them."""


def parse_duration(text: str) -> int:
    """Seconds of a duration such as `2h`, `5m`, `90s` or `1h30m`.

    Raises ValueError when the text is no such duration.
    """
    match = _DURATION.fullmatch(text)
    if not text or match is None:
        raise ValueError(f"{text!r} is not a duration: write it as 2h, 5m, 90s or 1h30m.")
    hours, minutes, seconds = (int(part[:-1]) if part else 0 for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds


def format_duration(seconds: int) -> str:
    """The shortest text that `parse_duration` reads back: 5400 gives `1h30m`, 0 gives `0s`."""
    if seconds < 0:
        raise ValueError(f"A duration cannot be negative: {seconds} s.")
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "m"), (rest, "s"))
    return "".join(f"{value}{unit}" for value, unit in parts if value) or "0s"


def parse_quantity(quantity: int | str) -> Decimal:
    """The number that a Kubernetes quantity stands for: `500m` is 0.5, `1Ki` is 1024.

    Raises ValueError when it is no quantity.
    """
    match = _QUANTITY.fullmatch(str(quantity))
    if match is None:
        raise ValueError(f"{quantity!r} is not a Kubernetes quantity: write it as 2, 500m or 8Gi.")
    number, suffix = match[1], match[2] or ""
    factor = _SUFFIXES.get(suffix)
    return Decimal(number + suffix) if factor is None else Decimal(number) * factor
