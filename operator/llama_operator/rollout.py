"""Which pods to make and which to delete. Pure: the clock is an argument.

A pod keeps its name NAME-INDEX, so there is never one more than replicas. Pods of an
older template are replaced within rollout.maxUnavailable: first those that do not serve
(that costs nothing, and a broken pod never blocks its own fix), then the others, highest
index first. A new pod that does not get Ready holds its place in that budget, so a bad
template stops at the first pods it breaks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from llama_operator.pods import Pod
from llama_operator.retry import waiting


@dataclass(frozen=True, slots=True)
class NewPod:
    """A pod to make; see `builders.build_pod`."""

    index: int
    attempt: int = 0
    avoided_nodes: Mapping[str, datetime] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Deletion:
    """A pod to delete and why."""

    pod: Pod
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Deletions come before creations. `wake_at`: the plan changes then by itself."""

    delete: tuple[Deletion, ...] = ()
    create: tuple[NewPod, ...] = ()
    wake_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Fleet:
    """The pods of one deployment and what is asked of them."""

    replicas: int
    template_hash: str
    max_unavailable: int
    pods: tuple[Pod, ...]
    told: Mapping[str, int] = field(default_factory=dict)
    """Refusals in a row that the status has for a pod that was not aligned, by its UID."""
    may_roll: bool = True
    """Pods that serve may be replaced now; those that do not always may."""

    def by_index(self) -> dict[int, Pod]:
        """Pods by index; the name is fixed, so there is one at most."""
        return {pod.index: pod for pod in self.pods}

    def outdated(self, pod: Pod) -> bool:
        """The pod was made from another template."""
        return pod.template_hash != self.template_hash

    def surplus(self) -> list[Pod]:
        """Pods beyond replicas, highest index first."""
        beyond = [pod for pod in self.pods if pod.index >= self.replicas]
        return sorted(beyond, key=lambda pod: pod.index, reverse=True)

    def wanted(self) -> list[Pod]:
        """Pods within replicas, in order of the index."""
        within = [pod for pod in self.pods if pod.index < self.replicas]
        return sorted(within, key=lambda pod: pod.index)


def plan(fleet: Fleet, absent: Mapping[int, tuple[datetime, NewPod]], now: datetime) -> Plan:
    """The next steps towards `replicas` pods of the current template.

    `absent` tells for a pod that does not exist when it may be made and how, where that
    is not at once and afresh.
    """
    deletions = [
        Deletion(pod, "ScaledDown", f"Deleted pod {pod.name}: replicas is {fleet.replicas}.")
        for pod in fleet.surplus()
        if not pod.terminating
    ]
    creations: list[NewPod] = []
    wake: list[datetime] = []
    by_index = fleet.by_index()
    for index in range(fleet.replicas):
        pod = by_index.get(index)
        if pod is None:
            when, new = absent.get(index, (now, NewPod(index)))
            if waiting(when, now):
                wake.append(when)
            else:
                creations.append(new)
        elif not pod.terminating and (replacement := _replacement(fleet, pod, now)) is not None:
            when, deletion, new = replacement
            if waiting(when, now):
                wake.append(when)
            else:
                deletions.append(deletion)
                creations.append(new)
    deletions.extend(_misaligned(fleet))
    deletions.extend(_roll(fleet))
    return Plan(tuple(deletions), tuple(creations), min(wake, default=None))


def _replacement(fleet: Fleet, pod: Pod, now: datetime) -> tuple[datetime, Deletion, NewPod] | None:
    """When and how a pod that can never serve is replaced."""
    if pod.failed and fleet.outdated(pod):
        message = f"Deleted pod {pod.name}: it failed, and the template has changed."
        return now, Deletion(pod, "Replaced", message), NewPod(pod.index)
    if pod.failed:
        new = NewPod(pod.index, pod.refusals(), pod.nodes_to_avoid(now))
        message = f"Deleted pod {pod.name} after {pod.reason}, to try again."
        return pod.next_try(now), Deletion(pod, "Retried", message), new
    if _only_avoids(pod) and not fleet.outdated(pod):
        message = f"Deleted pod {pod.name}: no other node took it, so the same may be tried again."
        until = max(pod.avoided_nodes.values())
        return until, Deletion(pod, "Retried", message), NewPod(pod.index, pod.attempt)
    return None


def _misaligned(fleet: Fleet) -> Iterator[Deletion]:
    """Pods that ended because they are not aligned where they are. They go at once, to free their
    GPU, but not before the status has the back-off and the nodes to avoid: those outlive them."""
    for pod in fleet.wanted():
        if pod.terminating or pod.failed or fleet.outdated(pod):
            continue
        if not pod.ready and fleet.told.get(pod.uid) == pod.attempt + 1:
            message = f"Deleted pod {pod.name}: it is not aligned on node {pod.node}."
            yield Deletion(pod, "Retried", message)


def _only_avoids(pod: Pod) -> bool:
    """No node took the pod, and it is kept from some that may take it by now."""
    return bool(pod.avoided_nodes) and pod.node is None


def _roll(fleet: Fleet) -> Iterator[Deletion]:
    """Pods of an older template that may go now."""
    live = {pod.index: pod for pod in fleet.wanted() if not pod.terminating and not pod.failed}
    outdated = sorted(
        (pod for pod in live.values() if fleet.outdated(pod)),
        key=lambda pod: (pod.ready, -pod.index),
    )
    under_way = fleet.replicas - len(live)
    under_way += sum(not pod.ready for pod in live.values() if not fleet.outdated(pod))
    unavailable = under_way + sum(not pod.ready for pod in outdated)
    for pod in outdated:
        if pod.ready and not fleet.may_roll:
            return
        if pod.ready and unavailable < fleet.max_unavailable:
            unavailable += 1
        elif pod.ready or under_way >= fleet.max_unavailable:
            return
        under_way += 1
        yield Deletion(pod, "Replaced", f"Deleted pod {pod.name}: its template has changed.")
