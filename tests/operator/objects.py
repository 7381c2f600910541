"""Objects as the API server and the runtimes give them, in the shape that a test needs."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime, timedelta
from typing import Any

from llama_operator.api import API_VERSION, KIND, UNSEEN_STATUS, LlamaDeployment
from llama_operator.builders import build_pod
from llama_operator.names import Manifest
from llama_operator.runtime_status import RuntimeStatus

NOW = datetime(2026, 6, 1, 12, 0, 0, tzinfo=UTC)
IMAGE = "registry.example/llama-runtime:1"


def time_text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def a_resource(*, name: str = "chat", generation: int = 1, **spec: Any) -> Manifest:
    """A LlamaDeployment that is new to the operator; keywords replace fields of the spec."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": "uid-of-the-resource",
            "generation": generation,
            "resourceVersion": "1",
        },
        "spec": {
            "model": {"source": "pvc://models/m.gguf"},
            "resources": {"cpu": "2", "memory": "8Gi", "gpus": 0},
            **copy.deepcopy(spec),
        },
        "status": dict(UNSEEN_STATUS),
    }


def parsed(manifest: Manifest) -> LlamaDeployment:
    return LlamaDeployment.from_json({**manifest, "status": {}})


def a_pod(resource: Manifest, index: int, *, uid: str | None = None, **build: Any) -> Manifest:
    """The pod that the operator would make, fresh in the API server."""
    pod = build_pod(parsed(resource), index, **{"image": IMAGE, **build})
    pod["metadata"]["uid"] = uid or f"uid-of-{pod['metadata']['name']}"
    pod["metadata"]["resourceVersion"] = "1"
    pod["metadata"]["creationTimestamp"] = time_text(NOW)
    pod["status"] = {"phase": "Pending", "qosClass": "Guaranteed"}
    return pod


def ready(pod: Manifest, *, node: str = "node-a") -> Manifest:
    """The same pod, running and Ready."""
    pod = running(pod, node=node)
    pod["status"]["conditions"].append({"type": "Ready", "status": "True"})
    return pod


def running(pod: Manifest, *, node: str = "node-a", **container: Any) -> Manifest:
    """The same pod, running and not Ready; keywords go to its container's status."""
    pod = copy.deepcopy(pod)
    pod["spec"]["nodeName"] = node
    pod["status"].update(
        phase="Running",
        podIP="10.0.0.1",
        conditions=[{"type": "PodScheduled", "status": "True"}],
        containerStatuses=[{"name": "runtime", "state": {"running": {}}, **container}],
    )
    return pod


def failed(
    pod: Manifest,
    *,
    reason: str = "TopologyAffinityError",
    node: str = "node-a",
    at: datetime = NOW,
) -> Manifest:
    """The same pod, refused by the kubelet of a node."""
    pod = copy.deepcopy(pod)
    pod["spec"]["nodeName"] = node
    pod["metadata"]["creationTimestamp"] = time_text(at)
    pod["status"].update(
        phase="Failed",
        reason=reason,
        message="Pod was rejected: Resources cannot be allocated with Topology locality",
        startTime=time_text(at),
    )
    return pod


def unschedulable(pod: Manifest, message: str = "0/1 nodes are available.") -> Manifest:
    """The same pod, which no node takes."""
    pod = copy.deepcopy(pod)
    pod["status"]["conditions"] = [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
        }
    ]
    return pod


def waiting(pod: Manifest, reason: str, message: str = "", **status: Any) -> Manifest:
    """The same pod, whose container waits; keywords go to its container's status."""
    pod = running(pod, **status)
    pod["status"]["phase"] = "Pending"
    pod["status"]["containerStatuses"][0]["state"] = {
        "waiting": {"reason": reason, "message": message}
    }
    return pod


def misaligned(
    pod: Manifest, *, node: str = "node-a", at: datetime = NOW, again: bool = False, **numa: Any
) -> Manifest:
    """The same pod, whose runtime ended because it is not aligned; keywords go to its numa.

    `again`: the kubelet has started its container once more."""
    found = {"verdict": "CpusSpanNodes", "cpus": "0-7", "cpuNodes": [0, 1], "mems": "0-1"}
    said = {"reason": "NUMANotAligned", "message": "The CPUs are of several nodes."}
    ended = {
        "terminated": {
            "exitCode": 78,
            "startedAt": time_text(at - timedelta(seconds=20)),
            "finishedAt": time_text(at),
            "message": json.dumps({**said, "numa": {**found, **numa}}),
        }
    }
    states = {"state": {"running": {}}, "lastState": ended} if again else {"state": ended}
    return running(pod, node=node, **states)


def terminating(pod: Manifest) -> Manifest:
    """The same pod, on its way out."""
    pod = copy.deepcopy(pod)
    pod["metadata"]["deletionTimestamp"] = time_text(NOW + timedelta(seconds=30))
    return pod


def a_runtime(**changes: Any) -> RuntimeStatus:
    """A runtime that serves, pinned; keywords replace whole parts."""
    status: dict[str, Any] = {
        "version": 1,
        "state": "Serving",
        "model": {"alias": "chat", "loadProgress": 1.0, "loaded": True},
        "kv": {
            "contextTokens": 65536,
            "bytes": 1509949440,
            "spanRatio": 0.0,
            "sequences": {"running": 0, "cached": 0, "free": 16},
        },
        "engine": {"gpuLayers": 0, "devices": ["CPU"]},
        "numa": {"verdict": "Aligned", "message": "", "cpuNodes": [1]},
    }
    return RuntimeStatus.model_validate({**status, **changes})
