"""Conditions, as metav1.Condition and kstatus mean them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from llama_operator.api import Condition

Truth = Literal["True", "False", "Unknown"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A condition without the bookkeeping."""

    type: str
    status: Truth
    reason: str
    message: str


TYPES: Final = {
    "Ready",
    "Reconciling",
    "Stalled",
    "ModelLoaded",
    "NUMAAligned",
    "GPUOffloaded",
    "RestartScheduled",
    "RestartHalted",
    "UpdatePending",
}
"""Every condition that the operator writes. Others are somebody else's and stay."""


def find(conditions: tuple[Condition, ...], kind: str) -> Condition | None:
    """The condition of that type."""
    return next((item for item in conditions if item.type == kind), None)


def with_times(
    findings: list[Finding], previous: tuple[Condition, ...], generation: int, now: datetime
) -> tuple[Condition, ...]:
    """Conditions whose lastTransitionTime changes only when their status does."""
    result = []
    for finding in findings:
        before = find(previous, finding.type)
        unchanged = before is not None and before.status == finding.status
        result.append(
            Condition(
                type=finding.type,
                status=finding.status,
                observed_generation=generation,
                last_transition_time=(
                    before.last_transition_time if before is not None and unchanged else now
                ),
                reason=finding.reason,
                message=finding.message,
            )
        )
    return tuple(result)


def carry(previous: tuple[Condition, ...], kind: str) -> Finding | None:
    """What was found before, while there is nothing new to find it from."""
    before = find(previous, kind)
    if before is None:
        return None
    return Finding(before.type, before.status, before.reason, before.message)
