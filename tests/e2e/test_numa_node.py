"""numa.policy Required on a kubelet that aligns, and on one that does not.

The machine is emulated, about ten times slower than this one, and may have to be made first:
no test says anything about time.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests import cluster_fixtures
from tests.cluster_fixtures import Cluster
from tests.e2e.deployment import Deployment, until
from tests.e2e.kubelet_profile import without_managers
from tests.runtime.numa.conftest import build_nvml

pytestmark = pytest.mark.timeout(3000)

SPEC: dict[str, Any] = {
    "kv": {"maxSequences": 2, "contextPerSequence": 512},
    "engine": {"gpuLayers": 0},
    "resources": {"cpu": "2", "memory": "1Gi", "gpus": 1},
    "numa": {"policy": "Required"},
    "rollout": {"drainTimeout": "5s"},
    "nodeSelector": {"kubernetes.io/hostname": "numa-node"},
}
# Of the 8 CPUs one is the system's: beside two pods of SPEC, one is left on NUMA node 0 and two on
# NUMA node 1.
THREE_CPUS = SPEC | {"resources": {"cpu": "3", "memory": "1Gi", "gpus": 0}}


@pytest.fixture(scope="session")
def nvml(numa_node: Cluster, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Containers with a GPU find a library there that answers as NVML does."""
    library = build_nvml(tmp_path_factory.mktemp("nvml"))
    cluster_fixtures.testcluster("copy", str(library), "numa-node:/opt/fake-nvml/libnvidia-ml.so.1")


@pytest.fixture
def third(numa_chat: Deployment) -> Iterator[Deployment]:
    """Another LlamaDeployment beside numa_chat."""
    deployment = Deployment(numa_chat.cluster, numa_chat.namespace, "third")
    yield deployment
    numa_chat.cluster.run("delete", "llama", "third", "-n", numa_chat.namespace, "--wait=false")


def gpu_of(chat: Deployment, pod: dict[str, Any]) -> str:
    """What the device plugin gave the container."""
    said = chat.cluster.ok(
        "exec", pod["metadata"]["name"], "-n", chat.namespace, "--", "/opt/venv/bin/python",
        "-c", "import os; print(os.environ['NVIDIA_VISIBLE_DEVICES'])",
    )  # fmt: skip
    return said.strip()


def place(numa: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(numa[name] for name in ("verdict", "cpus", "cpuNodes", "mems", "gpuNodes"))


def rows(chat: Deployment) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = chat.read().get("status", {}).get("pods", [])
    return found


def refusals(chat: Deployment) -> list[str]:
    """`N in a row` of each event about a refusal, in no order."""
    listed = chat.cluster.get("events.events.k8s.io", "-n", chat.namespace)["items"]
    notes = [
        item["note"]
        for item in listed
        if item["reason"] == "TopologyAffinityError" and item["regarding"]["name"] == chat.name
    ]
    return [re.findall(r"(\d+) in a row", note)[0] for note in notes]


def answers(pod: dict[str, Any]) -> bool:
    """The pod itself, whatever the Service would have chosen."""
    response = httpx.post(
        f"http://{pod['status']['podIP']}:8080/v1/completions",
        json={"model": "chat", "prompt": "The sea", "max_tokens": 4},
        timeout=600,
    )
    return bool(response.raise_for_status().json()["choices"][0]["text"])


def restarted_in_place(chat: Deployment, pod: dict[str, Any]) -> dict[str, Any]:
    """The same pod after its runtime has drained and ended, and was started again."""
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    starts = pod["status"]["containerStatuses"][0]["restartCount"]
    chat.cluster.ok(
        "exec", name, "-n", chat.namespace, "--", "/opt/venv/bin/python",
        "-c", "import os, signal; os.kill(1, signal.SIGTERM)",
    )  # fmt: skip

    def again() -> dict[str, Any] | None:
        for found in chat.ready_pods():
            (container,) = found["status"]["containerStatuses"]
            if found["metadata"]["uid"] == uid and container["restartCount"] > starts:
                return found
        return None

    restarted: dict[str, Any] = until(f"{name} serves again in place", again)
    return restarted


def test_each_replica_has_a_numa_node_and_one_that_fits_none_is_refused(
    numa_chat: Deployment, third: Deployment, nvml: None
) -> None:
    chat = numa_chat
    chat.apply(replicas=2, **SPEC)
    until("two pods are admitted", lambda: sum("podIP" in p["status"] for p in chat.pods()) == 2)
    third.apply(**THREE_CPUS)
    chat.wait_ready(2)

    # Each has CPUs, memory and the GPU of one node, and says so.
    first, second = chat.pods()
    places = {}
    for pod in (first, second):
        assert pod["spec"]["nodeName"] == "numa-node"
        assert pod["status"]["qosClass"] == "Guaranteed"
        numa = chat.runtime_status(pod)["numa"]
        node = int(gpu_of(chat, pod).removeprefix("gpu-"))
        assert numa["verdict"] == "Aligned", numa["message"]
        assert (numa["cpuNodes"], numa["mems"], numa["gpuNodes"]) == ([node], str(node), [node])
        assert numa["localRatio"] >= 0.95
        assert answers(pod)
        places[pod["metadata"]["name"]] = node
    assert sorted(places.values()) == [0, 1]
    until(
        "the rows show where each pod is",
        lambda: (
            {
                row["name"]: row.get("numaNode")
                for row in rows(chat)
                if row.get("numaVerdict") == "Aligned"
            }
            == places
        ),
    )
    until("NUMAAligned is True", lambda: chat.condition("NUMAAligned")["status"] == "True")
    until(
        "kubectl get llama shows it",
        lambda: " Aligned " in chat.cluster.ok("get", "llama", "chat", "-n", chat.namespace),
    )

    # The third fits the machine and no NUMA node of it: refused, and guarded.
    until(
        "the kubelet refuses the third",
        lambda: (
            [(row.get("retry") or {}).get("reason") for row in rows(third)]
            == ["TopologyAffinityError"]
        ),
    )

    def no_node_left() -> bool:
        stalled = third.condition("Stalled")
        return stalled["reason"] == "NoNodeLeft" and "numa-node refused it" in stalled["message"]

    until("no node is left for the third", no_node_left)
    assert len(third.pods()) <= 1
    counts = refusals(third)
    assert len(counts) == len(set(counts)), "one refusal, one event"


def test_a_kubelet_without_managers_is_told_what_it_lacks(
    numa_chat: Deployment, nvml: None
) -> None:
    chat = numa_chat
    with without_managers(chat.cluster):
        try:
            chat.apply(**SPEC)
            until(
                "the row has the verdict and the next try",
                lambda: (
                    [
                        (row.get("numaVerdict"), row.get("retry", {}).get("reason"))
                        for row in rows(chat)
                    ]
                    == [("CpusSpanNodes", "NUMANotAligned")]
                ),
            )
            aligned = chat.condition("NUMAAligned")
            assert (aligned["status"], aligned["reason"]) == ("False", "CpusSpanNodes")
            said = aligned["message"]
            assert "The kubelet of node numa-node does not align" in said
            assert "2 CPUs were asked for and 8 given" in said
            assert "\ncpuManagerPolicy: static\n" in said
            assert "\nmemoryManagerPolicy: Static\n" in said
            until(
                "it holds no GPU that it cannot use, and no other node may take it",
                lambda: (
                    chat.condition("Stalled")["reason"] == "NoNodeLeft"
                    and all("nodeName" not in pod["spec"] for pod in chat.pods())
                ),
            )
        finally:
            chat.cluster.ok("delete", "llama", "chat", "-n", chat.namespace)
            until("its pods are gone", lambda: not chat.pods())


@pytest.mark.long
def test_a_restart_in_place_keeps_the_place_and_a_freed_gpu_goes_to_who_waits(
    numa_chat: Deployment, third: Deployment, nvml: None
) -> None:
    chat = numa_chat
    chat.apply(replicas=2, **SPEC)
    chat.wait_ready(2)
    first, second = chat.pods()
    before, gpu = chat.runtime_status(first)["numa"], gpu_of(chat, first)
    (freed,) = chat.runtime_status(second)["numa"]["cpuNodes"]

    first = restarted_in_place(chat, first)
    assert place(chat.runtime_status(first)["numa"]) == place(before)
    assert gpu_of(chat, first) == gpu
    chat.wait_ready(2)

    third.apply(**SPEC)
    until("the third waits for a GPU", lambda: third.condition("Ready")["reason"] == "NoFreeGPU")
    chat.cluster.ok("scale", "llama", "chat", "--replicas=1", "-n", chat.namespace)
    third.wait_ready()
    until(
        "the third's row has the node that was freed",
        lambda: (
            [(row.get("numaNode"), row.get("numaVerdict")) for row in rows(third)]
            == [(freed, "Aligned")]
        ),
    )


@pytest.mark.long
def test_ten_minutes_of_refusals_make_fewer_than_ten_pods_and_room_lets_it_in(
    numa_chat: Deployment, third: Deployment
) -> None:
    chat = numa_chat
    chat.apply(replicas=2, **SPEC)
    chat.wait_ready(2)
    third.apply(**THREE_CPUS)
    made: set[str] = set()
    end = time.monotonic() + 600
    while time.monotonic() < end:
        pods = third.cluster.get(
            "pods", "-n", third.namespace, "-l", "llama-operator.dev/deployment=third"
        )["items"]
        assert len(pods) <= 1
        made |= {pod["metadata"]["uid"] for pod in pods}
        time.sleep(0.5)
    assert 2 < len(made) < 10
    chat.cluster.ok("scale", "llama", "chat", "--replicas=1", "-n", chat.namespace)
    third.wait_ready()
    until("the third is aligned", lambda: rows(third)[0].get("numaVerdict") == "Aligned")
