"""Why it does not serve and what to do, for everything that the API server and a runtime tell.

The test plays scheduler, kubelet and runtime, with their own words.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster_fixtures import Cluster
from tests.operator.integration.api import Api, eventually
from tests.operator.integration.deployment import Deployment
from tests.operator.integration.kubelet import Kubelet
from tests.operator.integration.process import OperatorProcess
from tests.operator.integration.runtime import FakeRuntime

GIB = 2**30
NODE = "a-node-that-is-gone"


def not_scheduled(said: str) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {"phase": "Pending", "conditions": [{**condition, "message": said}]}


def container(**fields: Any) -> dict[str, Any]:
    status = {"name": "runtime", "image": "", "imageID": "", "ready": False, "restartCount": 0}
    return {"phase": "Pending", "conditions": [], "containerStatuses": [{**status, **fields}]}


def waiting(reason: str, message: str) -> dict[str, Any]:
    return container(state={"waiting": {"reason": reason, "message": message}})


def ended(reason: str, code: int, message: str) -> dict[str, Any]:
    terminated = {"reason": reason, "exitCode": code, "message": message}
    looping = {"reason": "CrashLoopBackOff", "message": "back-off 10s"}
    return container(lastState={"terminated": terminated}, state={"waiting": looping})


NODES = "0/2 nodes are available: "
TOLD: list[tuple[dict[str, Any], str, bool, str]] = [
    (not_scheduled(NODES + "2 Insufficient nvidia.com/gpu."), "NoFreeGPU", False, "Free a"),
    (not_scheduled(NODES + "2 Insufficient cpu."), "InsufficientCPU", False, "resources.cpu"),
    (
        not_scheduled(NODES + "2 Insufficient memory."),
        "InsufficientMemory",
        False,
        "resources.memory",
    ),
    (
        not_scheduled(NODES + "2 node(s) didn't match Pod's node affinity/selector."),
        "NodeSelectorMismatch",
        False,
        "spec.nodeSelector",
    ),
    (
        not_scheduled(NODES + "2 node(s) had untolerated taint {gpu: a}."),
        "UntoleratedTaint",
        False,
        "spec.tolerations",
    ),
    (
        not_scheduled('persistentvolumeclaim "models" not found'),
        "PersistentVolumeClaimMissing",
        True,
        "Create the claim",
    ),
    (
        not_scheduled(NODES + "pod has unbound immediate PersistentVolumeClaims."),
        "PersistentVolumeClaimUnbound",
        False,
        "waits for a volume",
    ),
    (
        not_scheduled(NODES + "2 node(s) didn't find available persistent volumes to bind."),
        "PersistentVolumeClaimUnbound",
        False,
        "WaitForFirstConsumer",
    ),
    (waiting("ErrImagePull", "manifest unknown"), "ErrImagePull", False, "spec.image"),
    (waiting("ImagePullBackOff", "Back-off"), "ImagePullBackOff", True, "imagePullSecrets"),
    (waiting("InvalidImageName", "couldn't parse"), "InvalidImageName", True, "spec.image"),
    (
        waiting("CreateContainerConfigError", 'secret "k" not found'),
        "CreateContainerConfigError",
        True,
        'secret "k" not found',
    ),
    (
        ended(
            "OOMKilled",
            137,
            json.dumps({"memory": {"weightsBytes": 20 * GIB, "kvBytes": 8 * GIB}}),
        ),
        "OOMKilled",
        True,
        "weights 20.00 GiB + KV cache 8.00 GiB = 28.00 GiB",
    ),
    (ended("Error", 70, "no message"), "CrashLoopBackOff", True, "kubectl logs --previous"),
]


def told(chat: Deployment, reason: str, advice: str) -> bool:
    return chat.condition("Ready") == ("False", reason) and advice in chat.message("Ready")


def stalled(chat: Deployment, reason: str) -> bool:
    return chat.condition("Stalled") == ("True", reason)


def test_what_scheduler_and_kubelet_say(
    operator: OperatorProcess, api: Api, chat: Deployment
) -> None:
    chat.create(resources={"gpus": 1})
    chat.wait_for_pod("chat-0")

    for status, reason, permanent, advice in TOLD:
        # A merge patch alone would leave what the last one told of containers.
        api.patch("pods", "chat-0", {"status": {"containerStatuses": None, **status}}, "status")

        eventually(functools.partial(told, chat, reason, advice))
        assert stalled(chat, reason) is permanent
        assert chat.condition("Reconciling")[0] == ("False" if permanent else "True")


def test_what_the_api_server_does_not_take(
    operator: OperatorProcess, api: Api, chat: Deployment, kubelet: Kubelet
) -> None:
    limits = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"}}
    most = {"limits": [{"type": "Container", "max": {"memory": "1Gi"}}]}
    api.create("limitranges", {**limits, "spec": most})

    chat.create()
    eventually(lambda: stalled(chat, "LimitRangeExceeded"))
    assert "maximum memory usage per Container is 1Gi" in chat.message("Stalled")

    # A changed spec is tried at once.
    api.delete("limitranges", "small")
    eventually(lambda: api.get("limitranges", "small") is None)
    chat.change(priorityClassName="nobody-made-it")
    eventually(lambda: stalled(chat, "PriorityClassMissing"))
    chat.change(priorityClassName=None, runtimeClassName="nobody-made-it")
    eventually(lambda: stalled(chat, "RuntimeClassMissing"))
    assert "spec.runtimeClassName" in chat.message("Stalled")

    chat.change(runtimeClassName=None)
    kubelet.ready(chat.wait_for_pod("chat-0"))
    eventually(chat.settled)


@pytest.fixture
def runtime() -> Iterator[FakeRuntime]:
    with FakeRuntime() as found:
        yield found


def test_what_the_runtime_says(
    operator: OperatorProcess, api: Api, chat: Deployment, kubelet: Kubelet, runtime: FakeRuntime
) -> None:
    runtime.says(state="Loading", model={"loaded": False, "loadProgress": 0.42})
    keys = {"apiKeySecretRef": {"name": "keys"}}
    chat.create(resources={"gpus": 1}, server=keys)
    address = {"podIP": runtime.ip, "podIPs": [{"ip": runtime.ip}]}
    api.patch("pods", chat.wait_for_pod("chat-0"), {"status": address}, "status")
    kubelet.unready("chat-0")

    eventually(lambda: chat.condition("ModelLoaded") == ("False", "Loading"))
    assert "40 %" in chat.message("ModelLoaded")

    for reason in ("ModelFileMissing", "ModelChecksumMismatch"):
        runtime.says(state="Failed", reason=reason, message="Do this.", model={"loaded": False})
        eventually(functools.partial(stalled, chat, reason))
        assert chat.condition("Ready") == ("False", reason)
        assert chat.condition("ModelLoaded") == ("False", reason)
        assert "Do this." in chat.message("Ready")

    # It serves, and not from the GPU that it was given.
    runtime.says(engine={"devices": ["CPU"], "gpuLayers": 0})
    kubelet.ready("chat-0")
    eventually(lambda: stalled(chat, "NoGPUDevice"))
    assert chat.condition("Ready") == ("False", "NoGPUDevice")
    assert chat.condition("GPUOffloaded") == ("False", "NoGPUDevice")
    assert chat.condition("ModelLoaded") == ("True", "Loaded")

    # A Secret that does not exist: the pod starts, lets nobody in and says so.
    kubelet.unready("chat-0")
    on_gpu = {"devices": ["CUDA0"], "gpuLayers": 33}
    runtime.says(engine=on_gpu, reason="APIKeysUnreadable", message="The file is missing.")
    kubelet.ready("chat-0")
    eventually(lambda: stalled(chat, "APIKeysUnreadable"))
    assert "Secret keys" in chat.message("Stalled")
    assert chat.condition("GPUOffloaded") == ("True", "Offloaded")

    kubelet.unready("chat-0")
    runtime.says(engine=on_gpu)
    kubelet.ready("chat-0")
    eventually(chat.settled)


@pytest.fixture
def lost_node(control_plane: Cluster) -> Iterator[str]:
    """A node object behind which there is no machine."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
    control_plane.ok("apply", "-f", "-", stdin=json.dumps(node))
    yield NODE
    control_plane.run("delete", "node", NODE, "--ignore-not-found")


@pytest.mark.long
def test_a_pod_whose_node_is_gone(
    operator: OperatorProcess, api: Api, chat: Deployment, control_plane: Cluster, lost_node: str
) -> None:
    chat.create()
    target = {"apiVersion": "v1", "kind": "Node", "name": lost_node}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "chat-0"}}
    chat.wait_for_pod("chat-0")
    api.create("pods", {**binding, "target": target}, "chat-0", "binding")
    conditions = [
        {"type": "Ready", "status": "False"},
        {"type": "ContainersReady", "status": "True"},
    ]
    status = {"phase": "Running", "conditions": conditions}
    api.patch("pods", "chat-0", {"status": status}, "status")
    eventually(lambda: chat.condition("Ready") == ("False", "NodeNotReady"))
    first = chat.uids()["chat-0"]

    # What Kubernetes does after five minutes: nobody is there to confirm it.
    control_plane.ok(
        "delete", "pod", "chat-0", "-n", api.namespace, "--grace-period=1", "--wait=false"
    )
    eventually(lambda: chat.condition("Ready") == ("False", "NodeLost"))
    assert f"kubectl delete node {lost_node}" in chat.message("Ready")
    assert chat.uids() == {"chat-0": first}

    control_plane.ok("delete", "node", lost_node)
    eventually(lambda: chat.uids().get("chat-0", first) != first)
