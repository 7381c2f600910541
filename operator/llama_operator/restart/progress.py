"""How far the restart of one pod is: asked, taken, away, back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from llama_operator.api import LastRestart, RestartedPod, format_duration
from llama_operator.pods import Pod
from llama_operator.restart.facts import (
    deletion_began,
    ready_changed,
    restart_count,
    unready_by_itself,
)
from llama_operator.restart.request import request_id
from llama_operator.runtime_status import Reading, RuntimeStatus

RETURN: Final = timedelta(minutes=15)
"""For a pod to be Ready again after its drain."""
LOAD: Final = timedelta(hours=1)
"""The same while the runtime says that it loads the model."""
COMPACT: Final = timedelta(minutes=10)
"""For an answer to Compact."""
EXIT: Final = timedelta(seconds=60)
"""For a process to end after its drain, and for the kubelet to see it."""


@dataclass(frozen=True, slots=True)
class Step:
    """The entry as it is now. `finished`: what goes to the pod's row. `lost`: the pod is not
    Ready and its time is over. `deadline`: when that would be."""

    entry: RestartedPod
    finished: LastRestart | None = None
    lost: bool = False
    deadline: datetime | None = None


def is_taken(entry: RestartedPod, pod: Pod | None, run_id: str) -> bool:
    """Whether the request is on the pod, or the pod has gone: it cannot be taken back."""
    if pod is None or pod.uid != entry.uid or pod.terminating:
        return True
    if entry.method == "Pod":
        return False
    asked = request_id(pod) == run_id
    return asked or entry.start_time is not None or _process_is_new(entry, pod)


def advance(
    entry: RestartedPod,
    pod: Pod | None,
    reading: Reading,
    run_id: str,
    drain: timedelta,
    now: datetime,
) -> Step:
    """The next state of an entry that was taken."""
    moment = now.replace(microsecond=0)
    start = entry.start_time or moment
    entry = entry.model_copy(
        update={
            "start_time": start,
            "unready_time": (unready_by_itself(pod, run_id) if pod is not None else None)
            or entry.unready_time
            or _unready_time(entry, pod, moment),
        }
    )
    answer = reading.request if isinstance(reading, RuntimeStatus) else None
    answered = answer.state if answer is not None and answer.id == run_id else None
    if answer is not None and answered == "Failed":
        said = answer.message or "it gave no reason"
        return _end(entry, start, "Failed", f"The runtime did not do it: {said.rstrip('.')}.")
    if entry.method == "Compact" and answered == "Done":
        return _end(entry, start, "Done", downtime=0.0)
    if pod is not None and pod.ready and _process_is_new(entry, pod):
        return _end(entry, start, "Done", downtime=_downtime(entry, pod, moment))
    limit = _limit(entry, reading, drain)
    if now < start + limit:
        return Step(entry, deadline=start + limit)
    within = format_duration(int(limit.total_seconds()))
    if pod is not None and pod.ready:
        return _end(
            entry, start, "Failed", f"The runtime did not answer the request within {within}."
        )
    ended = _end(entry, start, "Failed", f"The pod was not Ready again within {within}.")
    return Step(ended.entry, ended.finished, lost=True)


def _process_is_new(entry: RestartedPod, pod: Pod) -> bool:
    return pod.uid != entry.uid or restart_count(pod) > (entry.restarts or 0)


def _limit(entry: RestartedPod, reading: Reading, drain: timedelta) -> timedelta:
    if entry.method == "Compact":
        return COMPACT
    loading = isinstance(reading, RuntimeStatus) and reading.state == "Loading"
    return drain + EXIT + (LOAD if loading else RETURN)


def _unready_time(entry: RestartedPod, pod: Pod | None, moment: datetime) -> datetime | None:
    """Since when the pod does not serve; None while it does, and when that was missed."""
    if pod is None:
        return moment
    if pod.uid != entry.uid:
        return None
    if pod.terminating:
        return deletion_began(pod) or moment
    return None if pod.ready else ready_changed(pod) or moment


def _downtime(entry: RestartedPod, pod: Pod, moment: datetime) -> float | None:
    if entry.unready_time is None:
        return None
    back = ready_changed(pod) or moment
    return max((back - entry.unready_time).total_seconds(), 0.0)


def _end(
    entry: RestartedPod,
    start: datetime,
    state: str,
    problem: str = "",
    *,
    downtime: float | None = None,
) -> Step:
    message = " ".join(part for part in (entry.message, problem) if part)
    done = entry.model_copy(update={"state": state, "message": message})
    finished = LastRestart(
        time=start,
        reason=done.reason or "",
        method=done.method or "",
        before=done.before if state == "Done" else None,
        downtime_seconds=downtime,
        message=message,
    )
    return Step(done, finished)
