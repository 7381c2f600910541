"""What the status is built from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from llama_operator.api import (
    LastRestart,
    LlamaDeployment,
    LlamaDeploymentStatus,
    RestartStatus,
)
from llama_operator.observation import Failure
from llama_operator.pods import Pod
from llama_operator.problems import Problem
from llama_operator.rollout import Fleet
from llama_operator.runtime_status import Reading, RuntimeStatus, Unknown
from llama_operator.status.conditions import Finding


@dataclass(frozen=True, slots=True)
class Look:
    """One look at a deployment: its pods, what the runtimes say, and what is wrong."""

    resource: LlamaDeployment
    previous: LlamaDeploymentStatus
    fleet: Fleet
    image: str
    readings: Mapping[str, Reading]
    """By the pod's UID; only pods that can be asked."""

    problems: tuple[Problem, ...]
    failures: Mapping[str, Failure]
    update_waits: bool = False
    """Pods of an older template serve on until the window opens."""

    restart: RestartStatus | None = None
    restart_findings: tuple[Finding, ...] = ()
    last_restarts: Mapping[str, LastRestart] = field(default_factory=dict)
    """By the pod's name."""

    def known(self) -> list[tuple[Pod, RuntimeStatus]]:
        """The wanted pods whose runtime has answered."""
        pairs = ((pod, self.readings.get(pod.uid)) for pod in self.fleet.wanted())
        return [(pod, reading) for pod, reading in pairs if isinstance(reading, RuntimeStatus)]

    def silent(self) -> list[Pod]:
        """The wanted pods whose runtime was asked and gave no answer."""
        return [
            pod for pod in self.fleet.wanted() if self.readings.get(pod.uid) is Unknown.NO_ANSWER
        ]

    def unasked(self) -> bool:
        """Some runtime was not asked yet: what was known before stands until it is."""
        return any(self.readings.get(pod.uid) is Unknown.NOT_ASKED for pod in self.fleet.wanted())
