"""What changed between two statuses: whether it must be written, and what to tell the user."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from llama_operator.actions import RecordEvent
from llama_operator.api import LlamaDeploymentStatus
from llama_operator.status.conditions import TYPES, find
from llama_operator.status.readiness import PROGRESS_REASONS

RETRY = "Retry"
"""Action of the event about a refused pod."""

AT_ONCE = timedelta(0)
SOON = timedelta(seconds=5)
"""A pod was given a node: usually it is Ready soon after, and both are one write."""
SELDOM = timedelta(minutes=5)
"""Numbers that a busy pod changes all the time."""


def due_after(before: LlamaDeploymentStatus, after: LlamaDeploymentStatus) -> timedelta | None:
    """How long after the last write the new status has to be written; None when it is the same."""
    ours = tuple(condition for condition in before.conditions if condition.type in TYPES)
    before = before.model_copy(update={"conditions": ours})
    if before == after:
        return None
    if _essence(before) != _essence(after):
        return AT_ONCE
    return SOON if _nodes(before) != _nodes(after) else SELDOM


def _essence(status: LlamaDeploymentStatus) -> LlamaDeploymentStatus:
    """The status without the numbers and nodes that may wait."""
    rows = tuple(
        row.model_copy(update={"node": None, "span_ratio": None, "sequences": None})
        for row in status.pods
    )
    kv = status.kv.model_copy(update={"span_ratio": None}) if status.kv is not None else None
    return status.model_copy(update={"pods": rows, "kv": kv})


def _nodes(status: LlamaDeploymentStatus) -> list[str | None]:
    return [row.node for row in status.pods]


def events(before: LlamaDeploymentStatus, after: LlamaDeploymentStatus) -> Iterator[RecordEvent]:
    """One event for each change that a user should hear of."""
    yield from _refusals(before, after)
    yield from _problem(before, after)
    yield from _alignment(before, after)


def _refusals(before: LlamaDeploymentStatus, after: LlamaDeploymentStatus) -> Iterator[RecordEvent]:
    counted = {row.name: row.retry for row in before.pods}
    for row in after.pods:
        old, new = counted.get(row.name), row.retry
        if new is None or (old is not None and old.count >= new.count):
            continue
        by = f" by node {new.node}" if new.node else ""
        yield RecordEvent(
            "Warning",
            new.reason or "Refused",
            RETRY,
            f"Pod {row.name} was refused{by}, {new.count} in a row; "
            f"the next try is at {new.next_time:%H:%M:%S} UTC.",
        )


def _problem(before: LlamaDeploymentStatus, after: LlamaDeploymentStatus) -> Iterator[RecordEvent]:
    old, new = find(before.conditions, "Ready"), find(after.conditions, "Ready")
    if new is None or new.status == "True" or new.reason in PROGRESS_REASONS:
        return
    if any(row.retry is not None and row.retry.reason == new.reason for row in after.pods):
        return
    if old is None or old.reason != new.reason:
        yield RecordEvent("Warning", new.reason, "Reconcile", new.message)


def _alignment(
    before: LlamaDeploymentStatus, after: LlamaDeploymentStatus
) -> Iterator[RecordEvent]:
    old, new = find(before.conditions, "NUMAAligned"), find(after.conditions, "NUMAAligned")
    if new is None or new.status != "False":
        return
    if old is None or (old.status, old.reason) != (new.status, new.reason):
        yield RecordEvent("Warning", f"NUMA{new.reason}", "Verify", new.message)
