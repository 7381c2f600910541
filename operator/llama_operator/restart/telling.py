"""What changed about restarts between two statuses: the Events, and what is counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from llama_operator.actions import RecordEvent
from llama_operator.api import LlamaDeploymentStatus, RestartedPod, RestartRun
from llama_operator.restart.gain import tell_gain
from llama_operator.status.conditions import find

ACTION = "Restart"


@dataclass(frozen=True, slots=True)
class EndedRestart:
    """A restart that has ended. `result`: Done or Failed."""

    method: str
    reason: str
    result: str
    downtime_seconds: float | None


def ended_restarts(
    before: LlamaDeploymentStatus, after: LlamaDeploymentStatus
) -> Iterator[EndedRestart]:
    """Each restart that has ended between two statuses."""
    rows = {row.name: row.last_restart for row in after.pods}
    for entry in _news(before, after):
        if entry.state in ("Done", "Failed"):
            last = rows.get(entry.name)
            yield EndedRestart(
                entry.method or "",
                entry.reason or "",
                entry.state,
                last.downtime_seconds if last is not None else None,
            )


def newly_skipped(before: LlamaDeploymentStatus, after: LlamaDeploymentStatus) -> int:
    """Pods that a run did not reach, when it has ended between two statuses."""
    run = _run(after)
    if run is None or run.state == "Running" or after.restart is None:
        return 0
    old = _run(before)
    ended = old is None or (old.id, old.state) != (run.id, run.state)
    return (after.restart.skipped or 0) if ended else 0


def restart_events(
    before: LlamaDeploymentStatus, after: LlamaDeploymentStatus
) -> Iterator[RecordEvent]:
    """One event for each step that a user should hear of."""
    for entry in _news(before, after):
        if entry.state == "Asked":
            message = f"Restarting pod {entry.name} ({entry.method}): {entry.message}"
            yield RecordEvent("Normal", "Restarting", ACTION, message)
        elif entry.state == "Done":
            yield _back(entry, after)
        elif entry.state == "Failed":
            message = f"Pod {entry.name} ({entry.method}): {entry.message}"
            yield RecordEvent("Warning", "RestartFailed", ACTION, message)
    yield from _measured(before, after)
    if (skipped := newly_skipped(before, after)) and after.restart is not None:
        message = f"{skipped} not restarted. {after.restart.message or ''}".strip()
        yield RecordEvent("Warning", "RestartSkipped", ACTION, message)
    for kind in ("RestartHalted", "RestartScheduled"):
        old, new = find(before.conditions, kind), find(after.conditions, kind)
        bad = "True" if kind == "RestartHalted" else "False"
        if new is None or new.status != bad or new.reason == "Held":
            continue
        if old is None or (old.status, old.reason) != (new.status, new.reason):
            reason = kind if kind == "RestartHalted" else new.reason
            yield RecordEvent("Warning", reason, ACTION, new.message)


def _measured(before: LlamaDeploymentStatus, after: LlamaDeploymentStatus) -> Iterator[RecordEvent]:
    """What a restarted pod measures, once it does."""
    old = {row.name: row.last_restart for row in before.pods}
    for row in after.pods:
        last, earlier = row.last_restart, old.get(row.name)
        if last is None or last.after is None:
            continue
        if earlier is None or earlier.time != last.time or earlier.after is None:
            gain = tell_gain(last.before, last.after)
            yield RecordEvent("Normal", "RestartMeasured", ACTION, f"Pod {row.name}: {gain}")


def _back(entry: RestartedPod, after: LlamaDeploymentStatus) -> RecordEvent:
    last = next((row.last_restart for row in after.pods if row.name == entry.name), None)
    downtime = last.downtime_seconds if last is not None else None
    took = "" if downtime is None else f", not Ready for {downtime:.0f} s"
    message = f"Pod {entry.name} is back ({entry.method}{took}): {entry.message}"
    return RecordEvent("Normal", "Restarted", ACTION, message)


def _run(status: LlamaDeploymentStatus) -> RestartRun | None:
    return status.restart.run if status.restart is not None else None


def _news(before: LlamaDeploymentStatus, after: LlamaDeploymentStatus) -> Iterator[RestartedPod]:
    """The entries of the run whose state is new."""
    old, run = _run(before), _run(after)
    if run is None:
        return
    states = {entry.name: entry.state for entry in old.pods} if old and old.id == run.id else {}
    for entry in run.pods:
        if states.get(entry.name) != entry.state:
            yield entry
