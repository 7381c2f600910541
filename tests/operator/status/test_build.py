"""The status as a whole, from pods and what their runtimes say."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from llama_operator.api import Condition, LlamaDeploymentStatus
from llama_operator.decide import decide
from llama_operator.names import Manifest
from llama_operator.observation import Failure, Observation
from llama_operator.runtime_status import Reading, Unknown
from tests.operator.objects import (
    IMAGE,
    NOW,
    a_pod,
    a_resource,
    a_runtime,
    failed,
    ready,
    running,
    terminating,
    unschedulable,
)


def status_of(
    resource: Manifest,
    *pods: Manifest,
    readings: dict[str, Reading] | None = None,
    failures: dict[str, Failure] | None = None,
    later: float = 0,
) -> LlamaDeploymentStatus:
    observation = Observation(
        resource=resource,
        pods=pods,
        readings=readings or {},
        failures=failures or {},
        default_image=IMAGE,
    )
    status = decide(observation, NOW + timedelta(seconds=later)).status
    assert status is not None
    return status


def condition(status: LlamaDeploymentStatus, kind: str) -> Condition:
    (found,) = [item for item in status.conditions if item.type == kind]
    return found


def kinds(status: LlamaDeploymentStatus) -> set[str]:
    return {item.type for item in status.conditions}


def truth(status: LlamaDeploymentStatus, kind: str) -> tuple[str, str]:
    found = condition(status, kind)
    return found.status, found.reason


def test_the_first_status_says_all_that_kstatus_wants() -> None:
    status = status_of(a_resource(replicas=2, generation=3))

    assert status.observed_generation == 3
    assert truth(status, "Ready") == ("False", "Starting")
    assert condition(status, "Reconciling").status == "True"
    assert condition(status, "Stalled").status == "False"
    assert status.selector == "llama-operator.dev/deployment=chat"
    assert status.runtime_image == IMAGE
    assert status.model == "chat"
    assert (status.replicas, status.ready_replicas, status.ready) == (0, 0, "0/2")


def test_all_pods_ready() -> None:
    resource = a_resource(replicas=2)

    status = status_of(resource, ready(a_pod(resource, 0)), ready(a_pod(resource, 1)))

    assert truth(status, "Ready") == ("True", "AllReplicasReady")
    assert condition(status, "Reconciling").status == "False"
    assert condition(status, "Stalled").status == "False"
    assert (status.replicas, status.ready_replicas, status.updated_replicas) == (2, 2, 2)
    assert status.ready == "2/2"


def test_no_replicas_are_ready_too() -> None:
    status = status_of(a_resource(replicas=0))

    assert truth(status, "Ready") == ("True", "ScaledToZero")
    assert condition(status, "Reconciling").status == "False"
    assert status.ready == "0/0"


def test_pods_beyond_replicas_are_waited_for() -> None:
    resource = a_resource(replicas=1)

    status = status_of(resource, ready(a_pod(resource, 0)), terminating(ready(a_pod(resource, 1))))

    assert condition(status, "Ready").status == "True"
    assert truth(status, "Reconciling") == ("True", "ScalingDown")
    assert "chat-1" in condition(status, "Reconciling").message
    assert status.ready == "1/1"


def test_a_rollout_names_what_is_left() -> None:
    resource = a_resource(replicas=2)
    old = a_resource(replicas=2, kv={"maxSequences": 2})

    status = status_of(resource, ready(a_pod(old, 0)), ready(a_pod(resource, 1)))

    assert truth(status, "Ready") == ("False", "RollingOut")
    assert "chat-0" in condition(status, "Ready").message
    assert status.updated_replicas == 1


def test_a_halted_rollout_says_what_holds_it() -> None:
    resource = a_resource(replicas=2)
    old = a_resource(replicas=2, kv={"maxSequences": 2})
    broken = running(a_pod(resource, 1))

    status = status_of(
        resource,
        ready(a_pod(old, 0)),
        broken,
        readings={
            broken["metadata"]["uid"]: a_runtime(
                state="Failed", reason="ModelCorrupt", message="Copy the file again."
            )
        },
    )

    assert truth(status, "Ready") == ("False", "ModelCorrupt")
    message = condition(status, "Ready").message
    assert message.startswith("1 of 2 pods is ready. The rollout waits. Pod chat-1")
    assert truth(status, "Stalled") == ("True", "ModelCorrupt")
    assert condition(status, "Reconciling").status == "False"


def test_what_waits_for_room_goes_on_by_itself() -> None:
    resource = a_resource(resources={"gpus": 1})
    pod = unschedulable(
        a_pod(resource, 0), "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    )

    status = status_of(resource, pod)

    assert truth(status, "Ready") == ("False", "NoFreeGPU")
    assert condition(status, "Reconciling").status == "True"
    assert condition(status, "Stalled").status == "False"


def test_what_needs_someone_comes_first() -> None:
    resource = a_resource(replicas=2)
    missing = unschedulable(a_pod(resource, 1), 'persistentvolumeclaim "models" not found')

    status = status_of(resource, unschedulable(a_pod(resource, 0)), missing)

    assert truth(status, "Stalled") == ("True", "PersistentVolumeClaimMissing")


def test_a_name_that_is_taken_is_stalled() -> None:
    resource = a_resource(replicas=0)
    failure = Failure(
        object="Service chat",
        reason="NameTaken",
        message="Service chat exists and does not belong to this LlamaDeployment: delete it.",
        permanent=True,
        count=1,
        generation=1,
        retry_at=NOW + timedelta(seconds=10),
    )

    status = status_of(resource, failures={"Service chat": failure})

    assert truth(status, "Stalled") == ("True", "NameTaken")
    assert "delete it" in condition(status, "Stalled").message


def test_what_goes_by_itself_is_no_problem() -> None:
    failure = Failure(
        object="Pod chat-0",
        reason="Terminating",
        message="Pod chat-0 is still going.",
        permanent=False,
        count=1,
        generation=1,
        retry_at=NOW + timedelta(seconds=2),
        soon=True,
    )

    status = status_of(a_resource(), failures={"Pod chat-0": failure})

    assert truth(status, "Ready") == ("False", "Starting")
    assert status.pods[0].retry is None


def test_a_transition_is_dated_and_nothing_else_is() -> None:
    resource = a_resource()
    pod = a_pod(resource, 0)
    resource["status"] = status_of(resource, pod).to_json()

    later = status_of(resource, running(pod), later=60)
    assert condition(later, "Ready").last_transition_time == NOW

    changed = status_of(resource, ready(pod), later=60)
    assert condition(changed, "Ready").last_transition_time == NOW + timedelta(seconds=60)
    assert condition(changed, "Stalled").last_transition_time == NOW


def test_the_model_is_loaded_when_every_runtime_says_so() -> None:
    resource = a_resource(replicas=2)
    pods = ready(a_pod(resource, 0)), running(a_pod(resource, 1))
    loading = a_runtime(state="Loading", model={"loaded": False, "loadProgress": 0.47})

    before = status_of(
        resource, *pods, readings={"uid-of-chat-0": a_runtime(), "uid-of-chat-1": loading}
    )
    after = status_of(
        resource, *pods, readings={"uid-of-chat-0": a_runtime(), "uid-of-chat-1": a_runtime()}
    )

    assert truth(before, "ModelLoaded") == ("False", "Loading")
    assert "chat-1 loads the model (40 %)" in condition(before, "ModelLoaded").message
    assert "chat-1 loads the model (40 %)" in condition(before, "Ready").message
    assert truth(after, "ModelLoaded") == ("True", "Loaded")


def test_a_runtime_that_was_not_asked_yet_changes_nothing() -> None:
    resource = a_resource()
    pod = ready(a_pod(resource, 0))
    resource["status"] = status_of(resource, pod, readings={"uid-of-chat-0": a_runtime()}).to_json()

    status = status_of(resource, pod, later=60)

    assert status.to_json() == resource["status"]


def test_a_runtime_that_does_not_answer_is_unknown() -> None:
    resource = a_resource()
    pod = ready(a_pod(resource, 0))
    resource["status"] = status_of(resource, pod, readings={"uid-of-chat-0": a_runtime()}).to_json()

    status = status_of(resource, pod, readings={"uid-of-chat-0": Unknown.NO_ANSWER})

    assert truth(status, "ModelLoaded") == ("Unknown", "NoAnswer")
    assert truth(status, "NUMAAligned") == ("Unknown", "NoAnswer")
    (row,) = status.pods
    assert row.numa_verdict is None
    assert row.sequences is None


def test_what_nobody_knows_is_left_out() -> None:
    resource = a_resource()

    status = status_of(resource, a_pod(resource, 0))

    assert kinds(status) == {"Ready", "Reconciling", "Stalled"}


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        ("Aligned", ("True", "Aligned")),
        ("SingleNode", ("True", "SingleNode")),
        ("MemoryRemote", ("False", "MemoryRemote")),
        ("CpusSpanNodes", ("False", "CpusSpanNodes")),
        ("Unknown", ("Unknown", "Unknown")),
        (None, ("Unknown", "Unknown")),
    ],
)
def test_alignment_is_what_the_runtime_found(verdict: str, expected: tuple[str, str]) -> None:
    resource = a_resource(numa={"policy": "Required"})
    reading = a_runtime(numa={"verdict": verdict, "message": "Said so.", "cpuNodes": [1]})

    status = status_of(resource, ready(a_pod(resource, 0)), readings={"uid-of-chat-0": reading})

    assert truth(status, "NUMAAligned") == expected
    assert status.pods[0].numa_verdict == verdict
    assert status.pods[0].numa_node == 1


def test_one_bad_verdict_is_enough() -> None:
    resource = a_resource(replicas=2)
    readings: dict[str, Reading] = {
        "uid-of-chat-0": a_runtime(),
        "uid-of-chat-1": a_runtime(numa={"verdict": "GpuRemote", "message": "GPU on node 0."}),
    }

    status = status_of(
        resource, ready(a_pod(resource, 0)), ready(a_pod(resource, 1)), readings=readings
    )

    assert truth(status, "NUMAAligned") == ("False", "GpuRemote")
    assert condition(status, "NUMAAligned").message == "Pod chat-1: GPU on node 0."


def test_without_a_numa_policy_nothing_is_said_about_it() -> None:
    resource = a_resource(numa={"policy": "None"})

    status = status_of(resource, ready(a_pod(resource, 0)), readings={"uid-of-chat-0": a_runtime()})

    assert "NUMAAligned" not in kinds(status)


def test_a_pod_that_something_made_burstable_is_told() -> None:
    resource = a_resource(numa={"policy": "Required"})
    pod = ready(a_pod(resource, 0))
    pod["status"]["qosClass"] = "Burstable"

    status = status_of(resource, pod, readings={"uid-of-chat-0": a_runtime()})

    assert truth(status, "NUMAAligned") == ("False", "NotGuaranteed")


def test_a_fraction_of_a_cpu_cannot_be_pinned() -> None:
    resource = a_resource(resources={"cpu": "1500m", "memory": "1Gi", "gpus": 0})

    status = status_of(resource, ready(a_pod(resource, 0)), readings={"uid-of-chat-0": a_runtime()})

    assert truth(status, "NUMAAligned") == ("False", "FractionalCPU")


@pytest.mark.parametrize(
    ("devices", "expected"),
    [(["CPU"], ("False", "NoGPUDevice")), (["CUDA0", "CPU"], ("True", "Offloaded"))],
)
def test_a_gpu_that_is_not_used_is_told(devices: list[str], expected: tuple[str, str]) -> None:
    resource = a_resource(resources={"gpus": 1})
    reading = a_runtime(engine={"devices": devices, "gpuLayers": 30})

    status = status_of(resource, ready(a_pod(resource, 0)), readings={"uid-of-chat-0": reading})

    assert truth(status, "GPUOffloaded") == expected


@pytest.mark.parametrize(
    "spec", [{"resources": {"gpus": 0}}, {"resources": {"gpus": 1}, "engine": {"gpuLayers": 0}}]
)
def test_who_asks_for_no_offload_hears_nothing_of_it(spec: dict[str, Any]) -> None:
    resource = a_resource(**spec)

    status = status_of(resource, ready(a_pod(resource, 0)), readings={"uid-of-chat-0": a_runtime()})

    assert "GPUOffloaded" not in kinds(status)


def test_the_cache_is_the_largest_and_the_worst_of_the_pods() -> None:
    resource = a_resource(replicas=2, kv={"maxSequences": 4, "contextPerSequence": 100})
    kv = {"bytes": 10, "spanRatio": 0.126, "sequences": {"running": 3}}
    readings: dict[str, Reading] = {
        "uid-of-chat-0": a_runtime(kv=kv),
        "uid-of-chat-1": a_runtime(kv={**kv, "bytes": 12, "spanRatio": None}),
    }

    status = status_of(
        resource, ready(a_pod(resource, 0)), ready(a_pod(resource, 1)), readings=readings
    )

    assert status.kv is not None
    assert status.kv.context_tokens == 400
    assert status.kv.bytes_actual == 12
    assert status.kv.span_ratio == 0.13
    assert [row.sequences for row in status.pods] == [3, 3]


def test_an_overcommitted_pool_has_the_size_that_was_asked_for() -> None:
    resource = a_resource(kv={"layout": "Unified", "totalContext": 1000})

    status = status_of(resource)

    assert status.kv is not None
    assert status.kv.context_tokens == 1000


def test_a_refused_pod_has_its_next_try_in_its_row() -> None:
    resource = a_resource()

    status = status_of(resource, failed(a_pod(resource, 0, attempt=1), node="node-a"))

    (row,) = status.pods
    assert row.retry is not None
    assert row.retry.count == 2
    assert row.retry.next_time == NOW + timedelta(seconds=20)
    assert row.retry.reason == "TopologyAffinityError"
    assert row.retry.node == "node-a"
    assert truth(status, "Ready") == ("False", "TopologyAffinityError")
    assert condition(status, "Stalled").status == "False"


def test_a_pod_that_serves_again_has_no_retry() -> None:
    resource = a_resource()
    resource["status"] = status_of(resource, failed(a_pod(resource, 0))).to_json()

    status = status_of(resource, ready(a_pod(resource, 0, attempt=1)))

    assert status.pods[0].retry is None


def test_the_last_restart_is_kept() -> None:
    resource = a_resource()
    pod = ready(a_pod(resource, 0))
    resource["status"] = status_of(resource, pod).to_json()
    restart = {"time": "2026-05-01T00:00:00Z", "reason": "Scheduled", "method": "Container"}
    resource["status"]["pods"][0]["lastRestart"] = restart

    status = status_of(resource, pod)

    assert status.to_json()["pods"][0]["lastRestart"] == restart


def test_a_container_that_was_injected_is_named() -> None:
    resource = a_resource(numa={"policy": "Required"})
    pod = ready(a_pod(resource, 0))
    pod["status"]["qosClass"] = "Burstable"
    pod["spec"]["containers"].append({"name": "mesh-proxy", "image": "proxy:1"})

    status = status_of(resource, pod, readings={"uid-of-chat-0": a_runtime()})

    assert "added the container mesh-proxy" in condition(status, "NUMAAligned").message


def test_a_preferred_pod_that_serves_misaligned_is_told_what_its_kubelet_lacks() -> None:
    resource = a_resource(numa={"policy": "Preferred"})
    numa = {"verdict": "CpusSpanNodes", "message": "Spans.", "cpus": "0-7", "cpuNodes": [0, 1]}
    reading = a_runtime(numa={**numa, "mems": "0-1"})

    status = status_of(resource, ready(a_pod(resource, 0)), readings={"uid-of-chat-0": reading})

    assert truth(status, "Ready") == ("True", "AllReplicasReady")
    assert truth(status, "NUMAAligned") == ("False", "CpusSpanNodes")
    said = condition(status, "NUMAAligned").message
    assert said.startswith("Pod chat-0: Spans. The kubelet of node node-a does not align:")
    assert "\nmemoryManagerPolicy: Static" in said


def test_a_runtime_that_still_loads_changes_no_verdict() -> None:
    resource = a_resource()
    pod = running(a_pod(resource, 0))
    loading = a_runtime(state="Loading", numa=None)

    first = status_of(resource, pod, readings={"uid-of-chat-0": loading})
    resource["status"] = status_of(
        resource, ready(pod), readings={"uid-of-chat-0": a_runtime()}
    ).to_json()
    again = status_of(resource, pod, readings={"uid-of-chat-0": loading})

    assert truth(first, "NUMAAligned") == ("Unknown", "Loading")
    assert truth(again, "NUMAAligned") == ("True", "Aligned")
