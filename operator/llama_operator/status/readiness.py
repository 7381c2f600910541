"""Ready, Reconciling and Stalled: one sentence about where the deployment stands.

kstatus (cli-utils pkg/kstatus) looks at Reconciling, then Stalled, then Ready: a problem
that waits for someone is Stalled and not Reconciling, so that GitOps tools fail fast.
"""

from __future__ import annotations

from collections.abc import Iterable

from llama_operator.problems import Problem
from llama_operator.rollout import Fleet
from llama_operator.runtime_status import RuntimeStatus
from llama_operator.status.conditions import Finding
from llama_operator.status.look import Look

PROGRESS_REASONS = {"Starting", "RollingOut", "AllReplicasReady", "ScaledToZero"}
"""Reasons of Ready that are no problem."""


def readiness(look: Look) -> list[Finding]:
    """The three conditions of kstatus."""
    fleet = look.fleet
    current = sum(
        pod.ready and (look.update_waits or not fleet.outdated(pod)) for pod in fleet.wanted()
    )
    problem = _worst(look.problems)
    if problem is None and current == fleet.replicas:
        return _serving(fleet)
    if problem is None:
        reason, message = _progress(look)
        return _conditions("False", reason, message, stalled=False)
    message = f"{_count(look)} {problem.message}"
    if _halted(look):
        message = f"{_count(look)} The rollout waits. {problem.message}"
    return _conditions("False", problem.reason, message, stalled=problem.permanent)


def invalid(message: str) -> list[Finding]:
    """The three conditions when the spec cannot be read."""
    return _conditions("False", "InvalidSpec", message, stalled=True)


def _serving(fleet: Fleet) -> list[Finding]:
    reason = "AllReplicasReady" if fleet.replicas else "ScaledToZero"
    message = f"{fleet.replicas} of {fleet.replicas} pods are ready."
    ready = Finding("Ready", "True", reason, message)
    if surplus := fleet.surplus():
        names = ", ".join(pod.name for pod in surplus)
        going = Finding("Reconciling", "True", "ScalingDown", f"Waiting for {names} to be gone.")
    else:
        going = Finding("Reconciling", "False", "Settled", "Nothing is left to do.")
    return [ready, going, Finding("Stalled", "False", "Settled", "Nothing is left to do.")]


def _conditions(status: str, reason: str, message: str, *, stalled: bool) -> list[Finding]:
    if stalled:
        why = "It cannot go on until someone acts: see Stalled."
        return [
            Finding("Ready", "False", reason, message),
            Finding("Reconciling", "False", "Stalled", why),
            Finding("Stalled", "True", reason, message),
        ]
    return [
        Finding("Ready", "False", reason, message),
        Finding("Reconciling", "True", reason, message),
        Finding("Stalled", "False", "Progressing", "The operator goes on by itself."),
    ]


def _worst(problems: Iterable[Problem]) -> Problem | None:
    """The first permanent problem, else the first."""
    found = list(problems)
    return next((problem for problem in found if problem.permanent), found[0] if found else None)


def _halted(look: Look) -> bool:
    fleet = look.fleet
    return any(pod.ready and fleet.outdated(pod) for pod in fleet.wanted()) and any(
        not pod.ready and not fleet.outdated(pod) for pod in fleet.wanted()
    )


def _count(look: Look) -> str:
    ready = sum(pod.ready for pod in look.fleet.wanted())
    return f"{ready} of {look.fleet.replicas} pods {'is' if ready == 1 else 'are'} ready."


def _progress(look: Look) -> tuple[str, str]:
    """Reason and message while nothing is wrong."""
    fleet = look.fleet
    outdated = [pod.name for pod in fleet.wanted() if fleet.outdated(pod)]
    if outdated:
        return "RollingOut", f"{_count(look)} Still to be replaced: {', '.join(outdated)}."
    steps = []
    for pod in fleet.wanted():
        reading = look.readings.get(pod.uid)
        if pod.ready:
            continue
        if pod.terminating:
            steps.append(f"Pod {pod.name} is going.")
        elif isinstance(reading, RuntimeStatus) and reading.state == "Loading":
            steps.append(f"Pod {pod.name} loads the model{percent(reading)}.")
        elif isinstance(reading, RuntimeStatus) and reading.state == "Draining":
            steps.append(f"Pod {pod.name} finishes its answers.")
        else:
            steps.append(f"Pod {pod.name} is starting.")
    return "Starting", " ".join([_count(look), *steps[:3]])


def percent(reading: RuntimeStatus) -> str:
    """Progress of the load in tenths: every write of the status should mean something."""
    progress = reading.model.load_progress
    return "" if progress is None else f" ({int(progress * 10) * 10} %)"
