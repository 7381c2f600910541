"""Whether a pod has a reason to be restarted, and how.

What wastes the cache's span is cured in place, what has grown in memory by a new process,
and a pod that sits on the wrong NUMA node by a new pod.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from llama_operator.api import LastRestart, Measurement, Restart
from llama_operator.restart.gain import gained
from llama_operator.runtime_status import RuntimeStatus

Method = Literal["Compact", "Container", "Pod"]

MISPLACED: Final = ("GpuRemote", "MemoryRemote")
"""NUMA verdicts that another placement may cure."""

SPAN_IS_TO_BLAME: Final = 0.1
"""From this span ratio on, a slow decode is first met by packing the cache."""

_STRENGTH: Final[tuple[Method, ...]] = ("Compact", "Container", "Pod")


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a pod is restarted: a CamelCase word, a sentence with the numbers, and the cure."""

    reason: str
    message: str
    method: Method


def always(restart: Restart, *, by_hand: bool) -> Cause:
    """The cause that needs no measurement."""
    method: Method = "Container" if restart.method == "Auto" else restart.method
    if by_hand:
        return Cause("ByHand", "It was asked for by hand.", method)
    return Cause("Scheduled", "The schedule asks for it.", method)


def fragmented(
    restart: Restart,
    reading: RuntimeStatus,
    measured: Measurement,
    last: LastRestart | None,
) -> Cause | None:
    """What is over a threshold; None when nothing is.

    Of several causes the one with the strongest cure is named, and all numbers are given.
    """
    found = _over(restart, reading, measured, last)
    if not found:
        return None
    strongest = max(found, key=lambda cause: _STRENGTH.index(cause.method))
    message = " ".join(cause.message for cause in found)
    method = strongest.method if restart.method == "Auto" else restart.method
    return Cause(strongest.reason, message, method)


def under_thresholds(measured: Measurement) -> str:
    """Why a pod is left alone, with its numbers."""
    numbers = (
        ("span ratio", measured.span_ratio),
        ("slowdown", measured.decode_slowdown),
        ("memory growth", measured.memory_growth),
    )
    known = [f"{name} {value:.2f}" for name, value in numbers if value is not None]
    said = ", ".join(known) if known else "nothing was measured yet"
    return f"It is under every threshold: {said}."


def _over(
    restart: Restart, reading: RuntimeStatus, measured: Measurement, last: LastRestart | None
) -> list[Cause]:
    thresholds = restart.thresholds
    found: list[Cause] = []
    span = measured.span_ratio or 0.0
    if measured.span_ratio is not None and span >= thresholds.span_ratio:
        message = f"Span ratio {span:.2f} (threshold {thresholds.span_ratio:.2f})."
        found.append(Cause("SpanRatio", message, "Compact"))
    slowdown = measured.decode_slowdown
    if slowdown is not None and slowdown >= thresholds.decode_slowdown:
        message = f"Decode is {slowdown:.0%} slower (threshold {thresholds.decode_slowdown:.0%})."
        packs = span >= SPAN_IS_TO_BLAME and not _was_in_vain(last, "DecodeSlowdown", "Compact")
        found.append(Cause("DecodeSlowdown", message, "Compact" if packs else "Container"))
    growth = measured.memory_growth
    if growth is not None and growth >= thresholds.memory_growth:
        message = f"Memory has grown by {growth:.0%} (threshold {thresholds.memory_growth:.0%})."
        found.append(Cause("MemoryGrowth", message, "Container"))
    verdict = reading.numa.verdict
    if verdict in MISPLACED and (last is None or last.reason != "Misplaced"):
        # Once: where it does not help, it would not help the next night either.
        found.append(Cause("Misplaced", f"Its NUMA verdict is {verdict}.", "Pod"))
    return found


def _was_in_vain(last: LastRestart | None, reason: str, method: str) -> bool:
    return (
        last is not None
        and (last.reason, last.method) == (reason, method)
        and gained(last.before, last.after) is False
    )
