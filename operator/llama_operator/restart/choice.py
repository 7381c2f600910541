"""Which pod is next, and whether any may be: one at a time, while all others are Ready."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from llama_operator.api import Measurement, RestartedPod, RestartRun, format_duration
from llama_operator.pods import Pod
from llama_operator.restart.cause import Cause, always, fragmented, under_thresholds
from llama_operator.restart.facts import (
    container_started,
    is_of_this_process,
    ready_changed,
    restart_count,
    up_since,
)
from llama_operator.restart.measure import measure
from llama_operator.restart.request import takes_requests
from llama_operator.restart.situation import Situation, Wait, seconds
from llama_operator.runtime_status import RuntimeStatus

SETTLE: Final = timedelta(seconds=10)
"""How long a pod is Ready before it counts: its endpoint reaches every kube-proxy meanwhile."""

CRASH_LOOP: Final = timedelta(minutes=10)
"""A container that ends again so soon after a restart waits in CrashLoopBackOff (KEP-4603)."""

OLD_POD = "It was made by a version of the operator that could not ask it for anything"


def all_others_ready(situation: Situation, now: datetime) -> Wait | None:
    """Why no restart may start now; None when one may."""
    fleet = situation.fleet
    wanted = fleet.wanted()
    if len(wanted) < fleet.replicas or fleet.surplus():
        return Wait("Waiting for every pod to be there, and for those that go to be gone.")
    if outdated := [pod.name for pod in wanted if fleet.outdated(pod)]:
        return Wait(f"The rollout goes first: {', '.join(outdated)} has an older template.")
    if away := [pod.name for pod in wanted if not pod.ready]:
        return Wait(f"Waiting for {', '.join(away)} to be Ready.")
    settled = max(((ready_changed(pod) or now - SETTLE) + SETTLE for pod in wanted), default=now)
    if settled > now:
        return Wait("Waiting for the pods to be Ready for some seconds.", settled)
    return None


def next_turn(situation: Situation, run: RestartRun, now: datetime) -> RestartedPod | Wait | None:
    """The next entry of the run; why there is none yet; None when every pod had its turn."""
    had = {entry.name for entry in run.pods}
    pods = [pod for pod in reversed(situation.fleet.wanted()) if pod.name not in had]
    waits = []
    for pod in pods:
        found = _judge(situation, run, pod, now)
        if isinstance(found, RestartedPod):
            return found
        waits.append(found)
    missing = situation.fleet.replicas - len(situation.fleet.wanted())
    if missing > 0:
        waits.append(Wait("Waiting for every pod to be there."))
    if not waits:
        return None
    soonest = min((wait.until for wait in waits if wait.until is not None), default=None)
    return Wait(waits[0].message, soonest)


def _judge(situation: Situation, run: RestartRun, pod: Pod, now: datetime) -> RestartedPod | Wait:
    by_hand = run.cause == "Hand"
    if pod.created is not None and pod.created >= run.open_time:
        return _left_alone(pod, "It was made since this run began.")
    if not by_hand and (young := _young(situation, run, pod, now)) is not None:
        return young
    reading = situation.reading(pod)
    measured = measure(reading) if is_of_this_process(reading, pod) else None
    restart = situation.restart
    if by_hand or restart.when == "Always":
        cause = always(restart, by_hand=by_hand)
    elif measured is None or not isinstance(reading, RuntimeStatus):
        return Wait(f"Waiting for {pod.name} to say what it measures.")
    else:
        row = next((row for row in situation.previous.pods if row.name == pod.name), None)
        last = row.last_restart if row is not None else None
        found = fragmented(restart, reading, measured, last)
        if found is None:
            return _left_alone(pod, under_thresholds(measured))
        cause = found
    return _asked(situation, pod, cause, measured, now)


def _young(
    situation: Situation, run: RestartRun, pod: Pod, now: datetime
) -> RestartedPod | Wait | None:
    since = up_since(pod)
    if since is None:
        return None
    old_enough = since + seconds(situation.restart.min_uptime)
    if old_enough <= now:
        return None
    minimum = situation.restart.min_uptime
    if old_enough < run.close_time:
        return Wait(f"Waiting until {pod.name} has run for minUptime, {minimum}.", old_enough)
    uptime = format_duration(max(int((now - since).total_seconds()), 0))
    return _left_alone(pod, f"It has run for {uptime}, and minUptime is {minimum}.")


def _asked(
    situation: Situation, pod: Pod, cause: Cause, measured: Measurement | None, now: datetime
) -> RestartedPod | Wait:
    method, message = cause.method, cause.message
    if method != "Pod" and not takes_requests(pod):
        if situation.restart.method == "Compact":
            return _left_alone(pod, f"{OLD_POD}, so Compact is not possible: use method Pod once.")
        method, message = "Pod", f"{message} {OLD_POD}, so the pod is replaced."
    if method == "Container" and (until := _until_no_crash_loop(pod)) and until > now:
        return Wait(
            f"Waiting for {pod.name}: the kubelet delays a restart this soon after the last.",
            until,
        )
    return RestartedPod(
        name=pod.name,
        uid=pod.uid,
        state="Asked",
        method=method,
        reason=cause.reason,
        message=message,
        restarts=restart_count(pod),
        before=measured,
    )


def _until_no_crash_loop(pod: Pod) -> datetime | None:
    started = container_started(pod)
    return started + CRASH_LOOP if started is not None and restart_count(pod) else None


def _left_alone(pod: Pod, message: str) -> RestartedPod:
    return RestartedPod(name=pod.name, uid=pod.uid, state="LeftAlone", message=message)
