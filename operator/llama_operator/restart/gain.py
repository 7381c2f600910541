"""What a restart has gained: the same numbers before and after."""

from __future__ import annotations

from typing import Final

from llama_operator.api import Measurement

NOTICEABLE_SPAN: Final = 0.05
NOTICEABLE_SPEED: Final = 0.03
NOTICEABLE_MEMORY: Final = 0.05
"""Smaller differences are noise."""

MIB: Final = 1 << 20


def gained(before: Measurement | None, after: Measurement | None) -> bool | None:
    """Whether anything became noticeably better; None while there is nothing to compare."""
    verdicts = [better for _, better in _comparisons(before, after)]
    return any(verdicts) if verdicts else None


def tell_gain(before: Measurement | None, after: Measurement | None) -> str:
    """The numbers before and after, and whether it was worth it, in sentences."""
    compared = _comparisons(before, after)
    if not compared:
        return "What it gained is not measured yet."
    said = ", ".join(text for text, _ in compared)
    verdict = (
        "It gained something" if any(better for _, better in compared) else "It gained nothing"
    )
    return f"{verdict}: {said}.{_placement(before, after)}"


def _comparisons(before: Measurement | None, after: Measurement | None) -> list[tuple[str, bool]]:
    if before is None or after is None:
        return []
    result = []
    if before.span_ratio is not None and after.span_ratio is not None:
        text = f"span ratio {before.span_ratio:.2f} to {after.span_ratio:.2f}"
        result.append((text, before.span_ratio - after.span_ratio >= NOTICEABLE_SPAN))
    old, new = before.decode_tokens_per_second, after.decode_tokens_per_second
    if old and new is not None:
        text = f"decode {old:.1f} to {new:.1f} tokens/s ({new / old - 1:+.0%})"
        result.append((text, new / old - 1 >= NOTICEABLE_SPEED))
    size, smaller = before.memory_bytes, after.memory_bytes
    if size and smaller is not None:
        text = f"memory {size / MIB:.0f} to {smaller / MIB:.0f} MiB"
        result.append((text, 1 - smaller / size >= NOTICEABLE_MEMORY))
    return result


def _placement(before: Measurement | None, after: Measurement | None) -> str:
    """Whether the CPUs and the memory nodes are the same; empty when that is not known."""
    if before is None or after is None or None in (before.cpus, after.cpus):
        return ""
    if (before.cpus, before.mems) == (after.cpus, after.mems):
        return f" It has the same CPUs ({after.cpus}) and memory nodes ({after.mems})."
    return (
        f" It had CPUs {before.cpus} and memory nodes {before.mems},"
        f" and has CPUs {after.cpus} and memory nodes {after.mems}."
    )
