"""Pods that have been on their way for too long, of which the API server has no reason. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from llama_operator.pods import Pod
from llama_operator.problems import Problem
from llama_operator.retry import parse_time

STARTS_WITHIN = timedelta(minutes=2)
"""From its node to its container. The kubelet mounts volumes and makes the sandbox; the pull of
an image comes later and has a reason of its own."""

GOES_WITHIN = timedelta(minutes=1)
"""Beyond the moment at which the kubelet would have killed it."""


def overdue(pod: Pod) -> tuple[datetime, Problem] | None:
    """From when on the pod is late, and what is to be said then; None when nothing is awaited."""
    return _going(pod) if pod.terminating else _starting(pod)


def _going(pod: Pod) -> tuple[datetime, Problem] | None:
    metadata = pod.manifest["metadata"]
    deadline = parse_time(metadata.get("deletionTimestamp"))
    if deadline is None:
        return None
    if finalizers := metadata.get("finalizers"):
        message = (
            f"Pod {pod.name} was deleted and is kept by the finalizer {finalizers[0]}: look at "
            "whoever set it."
        )
        return deadline + GOES_WITHIN, Problem("PodKeptByFinalizer", message)
    message = (
        f"Pod {pod.name} was deleted and node {pod.node} does not confirm that it ended, so its "
        "name is not free: the node is lost, or its kubelet hangs. Bring the node back; or, once "
        f"it is off for certain, kubectl delete node {pod.node}, or taint it "
        "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute."
    )
    return deadline + GOES_WITHIN, Problem("NodeLost", message)


def _starting(pod: Pod) -> tuple[datetime, Problem] | None:
    scheduled = pod.condition("PodScheduled")
    since = parse_time(scheduled.get("lastTransitionTime"))
    if scheduled.get("status") != "True" or since is None or pod.phase != "Pending":
        return None
    waiting = pod.container_status.get("state", {}).get("waiting", {})
    if waiting.get("reason", "ContainerCreating") != "ContainerCreating":
        return None
    if pod.condition("PodReadyToStartContainers").get("status") == "True":
        return None  # The image is being pulled.
    message = (
        f"Pod {pod.name} was given to node {pod.node} and has no container yet: a volume cannot "
        "be mounted, or the node does not answer. The kubelet's words are in "
        f"kubectl describe pod {pod.name}."
    )
    return since + STARTS_WITHIN, Problem("ContainerCreating", message)
