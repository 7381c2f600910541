"""numa.policy Required on a kubelet that aligns: one NUMA node for CPUs, memory and GPU."""

from __future__ import annotations

from typing import Any

import pytest
from tests.e2e.deployment import Deployment

# The machine is emulated, about ten times slower than this one, and may have to be made first.
pytestmark = pytest.mark.timeout(3000)

SPEC: dict[str, Any] = {
    "kv": {"maxSequences": 2, "contextPerSequence": 512},
    "engine": {"gpuLayers": 0},
    "resources": {"cpu": "2", "memory": "1Gi", "gpus": 1},
    "numa": {"policy": "Required"},
    "nodeSelector": {"kubernetes.io/hostname": "numa-node"},
}


def test_a_required_pod_serves_from_the_node_of_its_gpu(numa_chat: Deployment) -> None:
    numa_chat.apply(**SPEC)
    numa_chat.wait_ready()
    (pod,) = numa_chat.pods()
    assert pod["spec"]["nodeName"] == "numa-node"
    assert pod["status"]["qosClass"] == "Guaranteed"
    gpu = numa_chat.cluster.ok(
        "exec", pod["metadata"]["name"], "-n", numa_chat.namespace, "--", "/opt/venv/bin/python",
        "-c", "import os; print(os.environ['NVIDIA_VISIBLE_DEVICES'])",
    ).strip()  # fmt: skip
    node = int(gpu.removeprefix("gpu-"))
    numa = numa_chat.runtime_status(pod)["numa"]
    assert numa["cpuNodes"] == [node]
    assert numa["mems"] == str(node)
    assert numa["verdict"] == "Aligned"
    assert numa["localRatio"] >= 0.95
    assert numa_chat.ask("Write one sentence about the sea.", max_tokens=8)
    row = numa_chat.read()["status"]["pods"][0]
    assert row["numaVerdict"] == "Aligned"
    assert row["numaNode"] == node
    assert numa_chat.condition("NUMAAligned")["status"] == "True"
