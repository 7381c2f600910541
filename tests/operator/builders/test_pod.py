from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from llama_operator.builders import build_pod
from llama_operator.names import Manifest
from tests.operator.objects import IMAGE, NOW, a_resource, parsed


def pod_of(**spec: Any) -> Manifest:
    return build_pod(parsed(a_resource(**spec)), 0, image=IMAGE)


def container_of(**spec: Any) -> Manifest:
    containers: list[Manifest] = pod_of(**spec)["spec"]["containers"]
    (container,) = containers
    return container


def test_the_name_the_labels_and_the_owner_follow_the_contract() -> None:
    metadata = build_pod(parsed(a_resource(name="chat")), 3, image=IMAGE)["metadata"]

    assert metadata["name"] == "chat-3"
    assert metadata["labels"] == {
        "app.kubernetes.io/name": "llama-runtime",
        "app.kubernetes.io/component": "runtime",
        "app.kubernetes.io/managed-by": "llama-operator",
        "llama-operator.dev/deployment": "chat",
        "llama-operator.dev/index": "3",
    }
    (owner,) = metadata["ownerReferences"]
    assert owner["uid"] == "uid-of-the-resource"
    assert owner["controller"] is True
    assert owner["blockOwnerDeletion"] is False


def test_one_container_and_no_init_containers() -> None:
    spec = pod_of(numa={"policy": "Required"})["spec"]

    assert [container["name"] for container in spec["containers"]] == ["runtime"]
    assert "initContainers" not in spec


def test_the_users_labels_and_annotations_never_replace_ours() -> None:
    metadata = pod_of(
        podLabels={"team": "search", "llama-operator.dev/deployment": "other"},
        podAnnotations={"note": "x", "llama-operator.dev/template-hash": "forged"},
    )["metadata"]

    assert metadata["labels"]["team"] == "search"
    assert metadata["labels"]["llama-operator.dev/deployment"] == "chat"
    assert metadata["annotations"]["note"] == "x"
    assert metadata["annotations"]["llama-operator.dev/template-hash"] != "forged"


def test_the_pod_is_restricted_and_knows_nothing_of_the_cluster() -> None:
    spec = pod_of()["spec"]
    container = spec["containers"][0]

    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == 65532
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert {"name": "tmp", "emptyDir": {}} in spec["volumes"]


@pytest.mark.parametrize("policy", ["Required", "Preferred"])
def test_requests_are_limits_where_numa_matters(policy: str) -> None:
    resources = container_of(
        numa={"policy": policy},
        resources={"cpu": 4, "memory": "8Gi", "gpus": 2, "gpuResourceName": "amd.com/gpu"},
    )["resources"]

    assert resources["requests"] == {"cpu": "4", "memory": "8Gi", "amd.com/gpu": "2"}
    assert resources["limits"] == resources["requests"]


def test_without_numa_the_cpu_has_no_limit() -> None:
    resources = container_of(
        numa={"policy": "None"}, resources={"cpu": "500m", "memory": "1Gi", "gpus": 1}
    )["resources"]

    assert resources["requests"] == {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "1"}
    assert resources["limits"] == {"memory": "1Gi", "nvidia.com/gpu": "1"}


def test_a_cpu_pod_asks_for_no_gpu() -> None:
    assert set(container_of(resources={"gpus": 0})["resources"]["limits"]) == {"cpu", "memory"}


def test_every_setting_is_a_flag() -> None:
    args = container_of(
        model={"source": "pvc://models/dir/m.gguf", "alias": "small", "sha256": "a" * 64},
        kv={
            "maxSequences": 4,
            "contextPerSequence": 512,
            "layout": "Unified",
            "totalContext": 1024,
            "typeK": "q8_0",
            "typeV": "q4_0",
            "hostCache": "1.5Gi",
        },
        engine={
            "gpuLayers": -1,
            "batchSize": 256,
            "microBatchSize": 128,
            "flashAttention": "Enabled",
            "threads": 3,
            "splitMode": "Row",
            "tensorSplit": [3, 1.5],
        },
        server={"queueLimit": 7, "apiKeySecretRef": {"name": "keys"}},
        numa={"policy": "None"},
        rollout={"drainTimeout": "90s"},
    )["args"]

    assert args == [
        "--model-path=/models/models/dir/m.gguf",
        "--model-alias=small",
        f"--model-sha256={'a' * 64}",
        "--kv-max-sequences=4",
        "--kv-context-per-sequence=512",
        "--kv-layout=Unified",
        "--kv-total-context=1024",
        "--kv-host-cache=1610612736",
        "--kv-type-k=q8_0",
        "--kv-type-v=q4_0",
        "--engine-gpu-layers=-1",
        "--engine-batch-size=256",
        "--engine-micro-batch-size=128",
        "--engine-flash-attention=Enabled",
        "--engine-threads=3",
        "--engine-split-mode=Row",
        "--engine-tensor-split=3,1.5",
        "--server-queue-limit=7",
        "--server-api-key-file=/etc/llama-runtime/api-keys/keys",
        "--numa-policy=None",
        "--kv-keep-directory=/var/cache/llama-runtime",
        "--request-file=/etc/llama-runtime/pod/request",
        "--drain-timeout=90",
        "--drain-delay=10",
        "--host=0.0.0.0",
        "--port=8080",
        "--management-port=8081",
        "--termination-log=/dev/termination-log",
        "--engine-mmap",
        "--kv-keep-over-restart",
    ]


def test_a_required_pod_loads_without_mmap() -> None:
    args = container_of(numa={"policy": "Required"})["args"]

    assert "--no-engine-mmap" in args
    assert "--engine-mmap" not in args


def test_the_model_is_called_as_the_resource_when_it_has_no_alias() -> None:
    assert "--model-alias=chat" in container_of()["args"]


def test_kubernetes_does_not_expand_what_a_user_wrote() -> None:
    model = {"source": "pvc://models/m.gguf", "alias": "$(HOME)"}

    assert "--model-alias=$$(HOME)" in container_of(model=model)["args"]


def test_the_claim_is_mounted_read_only() -> None:
    pod = pod_of(model={"source": "pvc://shelf/a/b.gguf"})["spec"]

    assert {
        "name": "model",
        "persistentVolumeClaim": {"claimName": "shelf", "readOnly": True},
    } in pod["volumes"]
    assert {"name": "model", "mountPath": "/models/shelf", "readOnly": True} in pod["containers"][
        0
    ]["volumeMounts"]


def test_the_api_keys_are_mounted_and_not_read() -> None:
    pod = pod_of(server={"apiKeySecretRef": {"name": "keys", "key": "tokens"}})["spec"]

    (volume,) = [item for item in pod["volumes"] if item["name"] == "api-keys"]
    assert volume["secret"] == {
        "secretName": "keys",
        "items": [{"key": "tokens", "path": "keys"}],
        "optional": True,
    }


def test_the_pod_has_the_time_to_drain() -> None:
    assert pod_of(rollout={"drainTimeout": "2m"})["spec"]["terminationGracePeriodSeconds"] == 160


def test_the_rest_is_passed_through_as_it_is() -> None:
    affinity: dict[str, Any] = {
        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}
    }
    spec = pod_of(
        nodeSelector={"gpu": "yes"},
        tolerations=[{"key": "gpu", "operator": "Exists"}],
        affinity=affinity,
        priorityClassName="high",
        runtimeClassName="nvidia",
        schedulerName="topology",
        imagePullSecrets=[{"name": "registry"}],
        imagePullPolicy="Never",
    )["spec"]

    assert spec["nodeSelector"] == {"gpu": "yes"}
    assert spec["tolerations"] == [{"key": "gpu", "operator": "Exists"}]
    assert spec["affinity"] == affinity
    assert spec["priorityClassName"] == "high"
    assert spec["runtimeClassName"] == "nvidia"
    assert spec["schedulerName"] == "topology"
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert spec["containers"][0]["imagePullPolicy"] == "Never"


def test_what_the_user_left_out_is_left_to_kubernetes() -> None:
    spec = pod_of()["spec"]

    for name in ("nodeSelector", "tolerations", "affinity", "priorityClassName", "schedulerName"):
        assert name not in spec
    assert "imagePullPolicy" not in spec["containers"][0]


def test_a_pod_after_a_refusal_remembers_it_and_avoids_the_node() -> None:
    until = NOW + timedelta(minutes=3)
    pod = build_pod(
        parsed(a_resource()), 0, image=IMAGE, attempt=2, avoided_nodes={"node-a": until}
    )

    annotations = pod["metadata"]["annotations"]
    assert annotations["llama-operator.dev/attempt"] == "2"
    assert annotations["llama-operator.dev/avoided-nodes"] == "node-a=2026-06-01T12:03:00Z"
    assert "affinity" in pod["spec"]


def test_a_source_that_is_no_claim_is_an_error() -> None:
    with pytest.raises(ValueError, match="pvc://"):
        pod_of(model={"source": "hf://owner/model/m.gguf"})


def test_the_operators_requests_reach_the_container_as_a_file() -> None:
    pod = pod_of()["spec"]
    volume = next(item for item in pod["volumes"] if item["name"] == "request")
    mount = next(item for item in pod["containers"][0]["volumeMounts"] if item["name"] == "request")

    (item,) = volume["downwardAPI"]["items"]
    assert item["fieldRef"]["fieldPath"] == "metadata.annotations['llama-operator.dev/request']"
    assert f"{mount['mountPath']}/{item['path']}" == "/etc/llama-runtime/pod/request"


def test_what_is_kept_over_a_restart_is_on_a_volume_of_the_pod() -> None:
    assert {"name": "keep", "emptyDir": {}} in pod_of()["spec"]["volumes"]

    without = pod_of(kv={"keepOverRestart": False})["spec"]
    assert "keep" not in [item["name"] for item in without["volumes"]]
    assert "--no-kv-keep-over-restart" in without["containers"][0]["args"]
    assert not [flag for flag in without["containers"][0]["args"] if "keep-directory" in flag]
