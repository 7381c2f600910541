"""The scheduler's words, and what to do."""

from __future__ import annotations

import pytest

from llama_operator.pods import read_pod
from llama_operator.problems import Problem
from llama_operator.unschedulable import unschedulable
from tests.operator import objects
from tests.operator.objects import a_pod, a_resource, parsed, ready

RESOURCE = a_resource(resources={"cpu": 2, "memory": "8Gi", "gpus": 1})
NO_HELP = (
    " no new claims to deallocate, preemption: 0/1 nodes are available: "
    "1 Preemption is not helpful for scheduling."
)
PREEMPTION = "preemption: 0/3 nodes are available: 3 Insufficient memory."


def problem_of(said: str) -> Problem | None:
    pod = read_pod("chat", objects.unschedulable(a_pod(RESOURCE, 0), said))
    assert pod is not None
    return unschedulable(parsed(RESOURCE), pod)


@pytest.mark.parametrize(
    ("said", "reason", "advice", "permanent"),
    [
        ("0/3 nodes are available: 3 Insufficient nvidia.com/gpu.", "NoFreeGPU", "Free a", False),
        (
            'persistentvolumeclaim "models" not found',
            "PersistentVolumeClaimMissing",
            "Create the claim",
            True,
        ),
        (
            'persistentvolumeclaim "models" is being deleted',
            "PersistentVolumeClaimMissing",
            "again once it is gone",
            True,
        ),
        (
            'persistentvolumeclaim "models" bound to non-existent persistentvolume "v"',
            "PersistentVolumeClaimLost",
            "restore it",
            True,
        ),
        (
            "pod has unbound immediate PersistentVolumeClaims. preemption: 0/1",
            "PersistentVolumeClaimUnbound",
            "waits for a volume",
            False,
        ),
        (
            "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind.",
            "PersistentVolumeClaimUnbound",
            "WaitForFirstConsumer",
            False,
        ),
        (
            'running PreBind plugin "VolumeBinding": binding volumes: timed out',
            "PersistentVolumeClaimUnbound",
            "StorageClass",
            False,
        ),
        (
            "0/2 nodes are available: 2 node(s) had volume node affinity conflict.",
            "VolumeNodeConflict",
            "other nodes",
            False,
        ),
        ("0/3 nodes are available: 3 Insufficient cpu.", "InsufficientCPU", "resources.cpu", False),
        (
            "0/3 nodes are available: 3 Insufficient memory.",
            "InsufficientMemory",
            "resources.memory",
            False,
        ),
        (
            "0/1 nodes are available: 1 node(s) had untolerated taint {gpu: yes}.",
            "UntoleratedTaint",
            "spec.tolerations",
            False,
        ),
        (
            "0/1 nodes are available: 1 node(s) had untolerated taint(s).",
            "UntoleratedTaint",
            "spec.tolerations",
            False,
        ),
        (
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
            "NodeSelectorMismatch",
            "spec.nodeSelector",
            False,
        ),
        ("0/1 nodes are available: 1 node(s) were unschedulable.", "NodesCordoned", "Unc", False),
        ("0/1 nodes are available: 1 Too many pods.", "TooManyPods", "no more pods", False),
        ("no nodes available to schedule pods", "NoNodes", "Add a node", False),
        ("something new", "Unschedulable", "Make room", False),
    ],
)
def test_it_tells_what_is_missing(said: str, reason: str, advice: str, permanent: bool) -> None:
    problem = problem_of(said)

    assert problem is not None
    assert (problem.reason, problem.permanent) == (reason, permanent)
    assert said in problem.message
    assert advice in problem.message


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("0/1 nodes are available: 1 Insufficient cpu." + NO_HELP, "InsufficientCPU"),
        ("0/1 nodes are available: 1 Insufficient nvidia.com/gpu." + NO_HELP, "NoFreeGPU"),
        ("0/1 nodes are available: 1 Insufficient memory." + NO_HELP, "InsufficientMemory"),
        (
            '0/1 nodes are available: persistentvolumeclaim "nope" not found. not found',
            "PersistentVolumeClaimMissing",
        ),
        (
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
            + NO_HELP,
            "NodeSelectorMismatch",
        ),
        (
            "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
            "PersistentVolumeClaimUnbound",
        ),
        (
            "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind."
            + NO_HELP,
            "PersistentVolumeClaimUnbound",
        ),
        (
            "0/1 nodes are available: 1 node(s) had untolerated taint(s)." + NO_HELP,
            "UntoleratedTaint",
        ),
    ],
)
def test_the_words_of_kube_scheduler_1_35(said: str, reason: str) -> None:
    """Recorded from the test cluster's own scheduler and a node object."""
    problem = problem_of(said)

    assert problem is not None
    assert problem.reason == reason


def test_every_cause_gets_its_advice_and_what_preemption_says_is_no_cause() -> None:
    problem = problem_of(
        "0/3 nodes are available: 1 Insufficient cpu, 2 Insufficient nvidia.com/gpu. " + PREEMPTION
    )

    assert problem is not None
    assert problem.reason == "NoFreeGPU"
    assert "resources.cpu" in problem.message
    assert "resources.memory" not in problem.message


def test_a_scheduled_pod_has_no_problem() -> None:
    pod = read_pod("chat", ready(a_pod(RESOURCE, 0)))
    assert pod is not None
    assert unschedulable(parsed(RESOURCE), pod) is None
