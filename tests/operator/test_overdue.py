"""Pods that take too long."""

from __future__ import annotations

from datetime import timedelta

import pytest

from llama_operator.names import Manifest
from llama_operator.overdue import GOES_WITHIN, STARTS_WITHIN, overdue
from llama_operator.pods import Pod, read_pod
from tests.operator.objects import (
    NOW,
    a_pod,
    a_resource,
    ready,
    running,
    terminating,
    time_text,
    waiting,
)

RESOURCE = a_resource()


def read(manifest: Manifest) -> Pod:
    pod = read_pod("chat", manifest)
    assert pod is not None
    return pod


def scheduled(manifest: Manifest, *, sandbox: str = "False") -> Manifest:
    manifest["status"]["phase"] = "Pending"
    manifest["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": time_text(NOW)},
        {"type": "PodReadyToStartContainers", "status": sandbox},
    ]
    return manifest


def test_a_pod_on_a_lost_node_tells_how_to_free_its_name() -> None:
    pod = terminating(running(a_pod(RESOURCE, 0)))

    late = overdue(read(pod))

    assert late is not None
    when, problem = late
    assert when == NOW + timedelta(seconds=30) + GOES_WITHIN
    assert problem.reason == "NodeLost"
    assert "kubectl delete node node-a" in problem.message


def test_a_pod_with_a_finalizer_names_it() -> None:
    pod = terminating(running(a_pod(RESOURCE, 0)))
    pod["metadata"]["finalizers"] = ["example.com/hold"]

    late = overdue(read(pod))

    assert late is not None
    assert late[1].reason == "PodKeptByFinalizer"
    assert "example.com/hold" in late[1].message


def test_a_pod_without_a_container_points_to_the_kubelets_words() -> None:
    late = overdue(read(scheduled(waiting(a_pod(RESOURCE, 0), "ContainerCreating"))))

    assert late is not None
    when, problem = late
    assert when == NOW + STARTS_WITHIN
    assert problem.reason == "ContainerCreating"
    assert "kubectl describe pod chat-0" in problem.message


@pytest.mark.parametrize(
    "pod",
    [
        a_pod(RESOURCE, 0),
        ready(a_pod(RESOURCE, 0)),
        scheduled(waiting(a_pod(RESOURCE, 0), "ContainerCreating"), sandbox="True"),
        scheduled(waiting(a_pod(RESOURCE, 0), "ErrImagePull")),
    ],
    ids=["no node", "ready", "pulling", "image"],
)
def test_others_are_not_waited_for(pod: Manifest) -> None:
    assert overdue(read(pod)) is None
