"""What is said while a pod was refused: by a kubelet, or by its own runtime because it was not
aligned there. Pure.

Whether a node is left to try is the scheduler's word about the pod that avoids the nodes that
refused. The operator lists no nodes: with a Role it may not, and the scheduler knows taints,
selectors and resources better.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from llama_operator.alignment import NOT_ALIGNED, misaligned_end
from llama_operator.api import LlamaDeployment, LlamaDeploymentStatus, Retry
from llama_operator.names import pod_name
from llama_operator.pods import Pod
from llama_operator.problems import Problem
from llama_operator.rollout import Fleet

NO_NODE_LEFT = "NoNodeLeft"

_LASTING = re.compile(
    r"\d+ node\(s\) (didn't match Pod's node affinity/selector"
    r"|had untolerated taint(\(s\)| \{(?!node\.kubernetes\.io/).*\})"
    r"|had volume node affinity conflict)"
)
"""Reasons of kube-scheduler's plugins that stay until someone changes the node or the pod. The
control plane's own taints, such as not-ready, go by themselves."""


def refusal_problems(
    resource: LlamaDeployment, previous: LlamaDeploymentStatus, fleet: Fleet
) -> Iterator[tuple[str, Problem]]:
    """By name, the pods for which a refusal is all there is to say, also between two tries."""
    unchanged = previous.observed_generation == resource.metadata.generation
    rows = {row.name: row.retry for row in previous.pods if row.retry is not None and unchanged}
    stalled = unchanged and any(
        item.type == "Stalled" and item.status == "True" and item.reason == NO_NODE_LEFT
        for item in previous.conditions
    )
    by_index = fleet.by_index()
    for index in range(fleet.replicas):
        name = pod_name(resource.metadata.name, index)
        pod, retry = by_index.get(index), rows.get(name)
        if pod is None or pod.terminating:
            problem = _between_tries(name, retry, stalled)
        elif fleet.outdated(pod):
            problem = None
        else:
            problem = _refused(pod, retry, stalled)
        if problem is not None:
            yield name, problem


def _between_tries(name: str, retry: Retry | None, stalled: bool) -> Problem | None:
    if retry is None or retry.node is None:
        return None
    if stalled:
        return _no_node_left(name, retry.reason, {node.name for node in retry.avoided_nodes})
    why = retry.reason or "refused"
    return Problem(
        why,
        f"Pod {name} could not run on node {retry.node} ({why}, {retry.count} in a row); "
        f"the next try is at {retry.next_time:%H:%M:%S} UTC.",
    )


def _refused(pod: Pod, retry: Retry | None, stalled: bool) -> Problem | None:
    nodes = {*pod.avoided_nodes, *([pod.node] if pod.node is not None else [])}
    end = misaligned_end(pod)
    reason = pod.reason if pod.given_up else NOT_ALIGNED if end is not None else None
    reason = reason or (retry.reason if retry is not None else None)
    if pod.avoided_nodes and pod.node is None and nothing_else(pod):
        return _no_node_left(pod.name, reason, nodes)
    if stalled and (pod.given_up or end is not None or (pod.attempt and not _admitted(pod))):
        return _no_node_left(pod.name, reason, nodes)
    if end is not None:
        return Problem(
            NOT_ALIGNED,
            f"Pod {pod.name} does not serve from node {pod.node}, because numa.policy is "
            f"Required: {end.message} Another node is tried.",
        )
    return None


def nothing_else(pod: Pod) -> bool:
    """Whether the scheduler found that no node takes the pod, and that this will stay so."""
    condition = pod.condition("PodScheduled")
    said: str = condition.get("message") or ""
    _, found, reasons = said.partition(" nodes are available: ")
    if condition.get("status") != "False" or not found:
        return False
    reasons = reasons.partition(" preemption: ")[0].rstrip(". ")
    return all(_LASTING.match(reason) for reason in re.split(r", (?=\d+ )", reasons))


def _admitted(pod: Pod) -> bool:
    return bool(pod.container_status)


def _no_node_left(name: str, reason: str | None, nodes: set[str]) -> Problem:
    refused = ", ".join(sorted(nodes)) or "every node"
    cure = (
        "see NUMAAligned for what its kubelet lacks"
        if reason == NOT_ALIGNED
        else "make room on one NUMA node there"
    )
    return Problem(
        NO_NODE_LEFT,
        f"No node is left to try for pod {name}: {refused} refused it"
        f"{f' ({reason})' if reason else ''} and no other may take it: {cure}, or add a node. "
        "It is tried again by itself, see status.pods[].retry.",
        permanent=True,
    )
