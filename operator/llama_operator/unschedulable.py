"""What kube-scheduler says of a pod that no node takes, and what to do about it. Pure."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from llama_operator.api import LlamaDeployment
from llama_operator.pods import Pod
from llama_operator.problems import Problem, sentence


class _Cause(NamedTuple):
    reason: str
    pattern: str
    """In the scheduler's message (pkg/scheduler/framework/plugins), in lower case."""

    advice: str
    permanent: bool = False


_CAUSES: Final = (
    _Cause(
        "PersistentVolumeClaimMissing",
        r"persistentvolumeclaim \S+ not found",
        "Create the claim that model.source names, or correct model.source.",
        permanent=True,
    ),
    _Cause(
        "PersistentVolumeClaimMissing",
        r"persistentvolumeclaim \S+ is being deleted",
        "Make the claim that model.source names again once it is gone, or correct model.source.",
        permanent=True,
    ),
    _Cause(
        "PersistentVolumeClaimLost",
        r"bound to non-existent persistentvolume",
        "The volume behind the claim that model.source names is gone: restore it, or make the "
        "claim again.",
        permanent=True,
    ),
    _Cause(
        "PersistentVolumeClaimUnbound",
        r"unbound immediate persistentvolumeclaims",
        "Look at the claim that model.source names with kubectl describe pvc: it waits for a "
        "volume of its StorageClass.",
    ),
    _Cause(
        "PersistentVolumeClaimUnbound",
        r"didn't find available persistent volumes to bind|binding volumes|storageclass",
        "The claim that model.source names is bound when a pod uses it (WaitForFirstConsumer), "
        "and no volume fits there: look at kubectl describe pvc, and at its StorageClass.",
    ),
    _Cause(
        "VolumeNodeConflict",
        r"volume node affinity conflict",
        "The model's volume can only be used on other nodes: free one of those, or put the model "
        "where every node reaches it.",
    ),
    _Cause(
        "InsufficientMemory",
        r"insufficient memory",
        "Lower resources.memory, or free or add a node with that much memory.",
    ),
    _Cause(
        "InsufficientCPU",
        r"insufficient cpu",
        "Lower resources.cpu, or free or add a node with that many CPUs.",
    ),
    _Cause(
        "UntoleratedTaint",
        r"untolerated taint",
        "Add the taint to spec.tolerations, or take it off the node.",
    ),
    _Cause(
        "NodeSelectorMismatch",
        r"didn't match pod's node affinity/selector",
        "Correct spec.nodeSelector or spec.affinity, or label a node.",
    ),
    _Cause("NodesCordoned", r"node\(s\) were unschedulable", "Uncordon a node."),
    _Cause("TooManyPods", r"too many pods", "Free or add a node: these take no more pods."),
    _Cause("NoNodes", r"no nodes available", "Add a node."),
)


def unschedulable(resource: LlamaDeployment, pod: Pod) -> Problem | None:
    """The first cause in the message is the reason; the advice is about all of them."""
    condition = pod.condition("PodScheduled")
    if condition.get("status") != "False":
        return None
    said: str = condition.get("message") or ""
    about_nodes = said.lower().partition("preemption:")[0]
    causes = [
        cause
        for cause in (*_gpu(resource), *_CAUSES)
        if re.search(cause.pattern, about_nodes) is not None
    ]
    advice = " ".join(dict.fromkeys(cause.advice for cause in causes))
    return Problem(
        causes[0].reason if causes else condition.get("reason") or "Unschedulable",
        f"Pod {pod.name} cannot be scheduled: {sentence(said)} "
        f"{advice or 'Make room, or correct what the pod asks for.'}",
        permanent=bool(causes) and causes[0].permanent,
    )


def _gpu(resource: LlamaDeployment) -> tuple[_Cause, ...]:
    wanted = resource.spec.resources
    if not wanted.gpus:
        return ()
    name = wanted.gpu_resource_name
    advice = (
        f"Free a {name}, add a node that has one, lower replicas, "
        "or set resources.gpus to 0 to compute on the CPU."
    )
    return (_Cause("NoFreeGPU", f"insufficient {re.escape(name.lower())}", advice),)
