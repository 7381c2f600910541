"""RestartScheduled, RestartHalted and UpdatePending, where there is something to say."""

from __future__ import annotations

from llama_operator.api import RestartStatus
from llama_operator.restart.opening import Timetable
from llama_operator.restart.situation import Situation
from llama_operator.status.conditions import Finding


def findings(
    situation: Situation, timetable: Timetable, status: RestartStatus, *, window_open: bool
) -> tuple[Finding, ...]:
    """The conditions of restarts."""
    found = (
        _scheduled(situation, timetable),
        _halted(situation, status),
        _update_pending(situation, timetable, window_open=window_open),
    )
    return tuple(finding for finding in found if finding is not None)


def _scheduled(situation: Situation, timetable: Timetable) -> Finding | None:
    kind = "RestartScheduled"
    if timetable.problem is not None:
        return Finding(kind, "False", timetable.problem.reason, str(timetable.problem))
    if timetable.schedule is None:
        return None
    if (held := situation.held) is not None:
        return Finding(kind, "False", "Held", held)
    return Finding(kind, "True", "Scheduled", "status.restart.nextTime is the next window.")


def _halted(situation: Situation, status: RestartStatus) -> Finding | None:
    run = status.run
    if run is None or run.state != "Halted":
        return None
    kind = "RestartHalted"
    for entry in run.pods:
        if entry.state != "Failed":
            continue
        pod = situation.pod(entry.name)
        if pod is None or not pod.ready:
            message = (
                f"Pod {entry.name} did not come back from its restart ({entry.method}), so no "
                f"other pod is restarted. Look at kubectl describe pod {entry.name} and at its "
                "log; the next window restarts pods only when all are Ready."
            )
            return Finding(kind, "True", "PodNotReady", message)
    message = "The pod is Ready again: the next window restarts pods as usual."
    return Finding(kind, "False", "Recovered", message)


def _update_pending(
    situation: Situation, timetable: Timetable, *, window_open: bool
) -> Finding | None:
    if situation.resource.spec.rollout.update_policy != "Window":
        return None
    kind, fleet = "UpdatePending", situation.fleet
    outdated = [pod.name for pod in fleet.wanted() if fleet.outdated(pod)]
    if not outdated:
        return Finding(kind, "False", "UpToDate", "Every pod is made from the present spec.")
    names = ", ".join(outdated)
    if window_open:
        return Finding(kind, "True", "RollingOut", f"The window is open: replacing {names}.")
    if timetable.schedule is None:
        message = (
            f"{names} has an older template and there is no window: correct restart.schedule, "
            "or set rollout.updatePolicy to Immediate."
        )
        return Finding(kind, "True", "NoWindow", message)
    message = f"{names} has an older template and is replaced in the next restart window."
    return Finding(kind, "True", "WaitingForWindow", message)
