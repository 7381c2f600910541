"""What restarts are decided on, and what is decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from llama_operator.actions import Annotate, Evict
from llama_operator.api import (
    LastRestart,
    LlamaDeployment,
    LlamaDeploymentStatus,
    Restart,
    RestartStatus,
    parse_duration,
)
from llama_operator.names import HOLD_ANNOTATION
from llama_operator.observation import Failure
from llama_operator.pods import Pod
from llama_operator.rollout import Fleet
from llama_operator.runtime_status import Reading, Unknown
from llama_operator.status.conditions import Finding

REFUSED: Final = "Restart "
"""Before a pod's name, in what was refused: a restart that waits is no problem of the pods."""


@dataclass(frozen=True, slots=True)
class Situation:
    """One look at a deployment, as far as restarts are concerned."""

    resource: LlamaDeployment
    previous: LlamaDeploymentStatus
    fleet: Fleet
    readings: Mapping[str, Reading]
    """By the pod's UID."""

    failures: Mapping[str, Failure]
    """What the API server refused, by `Annotate.object` and `Evict.object` too."""

    slot_free: bool = True
    """Fewer restarts are under way in the cluster than are allowed."""

    @property
    def restart(self) -> Restart:
        """The settings; the defaults hold for a restart by hand without `spec.restart`."""
        return self.resource.spec.restart or Restart()

    @property
    def memory(self) -> RestartStatus:
        """What was written about restarts last."""
        return self.previous.restart or RestartStatus()

    @property
    def window(self) -> timedelta:
        return seconds(self.restart.window)

    @property
    def drain(self) -> timedelta:
        return seconds(self.resource.spec.rollout.drain_timeout)

    @property
    def held(self) -> str | None:
        """Why nothing may start, in a sentence."""
        if self.restart.suspend:
            return "Restarts are held: restart.suspend is set."
        if self.resource.metadata.annotations.get(HOLD_ANNOTATION) == "true":
            return f"Restarts are held by the annotation {HOLD_ANNOTATION}."
        return None

    def pod(self, name: str) -> Pod | None:
        return next((pod for pod in self.fleet.wanted() if pod.name == name), None)

    def reading(self, pod: Pod | None) -> Reading:
        return Unknown.NOT_ASKED if pod is None else self.readings.get(pod.uid, Unknown.NOT_ASKED)

    def refusal(self, pod: str) -> Failure | None:
        """The API server's last answer to an attempt to restart the pod."""
        return self.failures.get(f"{REFUSED}{pod}")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What to do, what to write, and what others have to know."""

    status: RestartStatus | None = None
    actions: tuple[Annotate | Evict, ...] = ()
    findings: tuple[Finding, ...] = ()
    last_restarts: Mapping[str, LastRestart] = field(default_factory=dict)
    busy: frozenset[str] = frozenset()
    """Pods that are being restarted: for a rollout they count as away."""

    window_open: bool = False
    """Spec changes that wait for the window may be rolled out."""

    wake_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Why nothing goes on, in a sentence, and when to look again without an event."""

    message: str
    until: datetime | None = None


def seconds(duration: str) -> timedelta:
    """A duration of the spec."""
    return timedelta(seconds=parse_duration(duration))
