"""A hash that changes when, and only when, the pod does."""

from __future__ import annotations

from typing import Any

import pytest

from llama_operator.api import LlamaDeploymentSpec
from llama_operator.builders import build_pod
from llama_operator.names import Manifest
from llama_operator.template_hash import template_hash
from tests.operator.objects import IMAGE, a_resource, parsed

CHANGES: dict[str, dict[str, Any]] = {
    "replicas": {"replicas": 3},
    "model": {"model": {"source": "pvc://models/other.gguf"}},
    "kv": {"kv": {"maxSequences": 3}},
    "engine": {"engine": {"batchSize": 1024}},
    "resources": {"resources": {"cpu": "4", "memory": "8Gi", "gpus": 0}},
    "numa": {"numa": {"policy": "Required"}},
    "restart": {"restart": {"schedule": "0 3 * * *"}},
    "rollout": {"rollout": {"drainTimeout": "1m"}},
    "server": {"server": {"queueLimit": 1}},
    "image": {"image": "registry.example/other:2"},
    "image_pull_policy": {"imagePullPolicy": "Never"},
    "image_pull_secrets": {"imagePullSecrets": [{"name": "registry"}]},
    "node_selector": {"nodeSelector": {"gpu": "yes"}},
    "tolerations": {"tolerations": [{"operator": "Exists"}]},
    "affinity": {"affinity": {"podAffinity": {}, "nodeAffinity": {"x": 1}}},
    "priority_class_name": {"priorityClassName": "high"},
    "runtime_class_name": {"runtimeClassName": "nvidia"},
    "scheduler_name": {"schedulerName": "other"},
    "pod_labels": {"podLabels": {"a": "b"}},
    "pod_annotations": {"podAnnotations": {"a": "b"}},
}


def without_hash(pod: Manifest) -> Manifest:
    pod["metadata"]["annotations"].pop("llama-operator.dev/template-hash")
    return pod


def built(**spec: Any) -> Manifest:
    resource = parsed(a_resource(**spec))
    return without_hash(build_pod(resource, 0, image=resource.spec.image or IMAGE))


def hashed(**spec: Any) -> str:
    return template_hash(parsed(a_resource(**spec)).spec)


def test_every_field_of_the_spec_is_covered() -> None:
    assert set(CHANGES) == set(LlamaDeploymentSpec.model_fields)


@pytest.mark.parametrize("field", CHANGES)
def test_it_changes_when_the_pod_does(field: str) -> None:
    change = CHANGES[field]

    assert (hashed(**change) != hashed()) == (built(**change) != built())


@pytest.mark.parametrize(
    "rollout", [{"maxUnavailable": 3}, {"updatePolicy": "Window"}, {"drainTimeout": "5m"}]
)
def test_how_to_roll_out_is_no_reason_to_roll_out(rollout: dict[str, Any]) -> None:
    assert hashed(rollout=rollout) == hashed()


@pytest.mark.parametrize("cpu", [2, "2", "2000m"])
@pytest.mark.parametrize("memory", ["8Gi", "8192Mi", 8589934592])
def test_another_text_for_the_same_quantity_is_the_same(cpu: Any, memory: Any) -> None:
    assert hashed(resources={"cpu": cpu, "memory": memory, "gpus": 0}) == hashed()


def test_a_default_that_is_written_out_is_the_same() -> None:
    assert hashed(kv={"maxSequences": 16, "layout": "Partitioned"}) == hashed()
    assert hashed(nodeSelector={}) == hashed()


def test_the_order_of_labels_does_not_matter() -> None:
    assert hashed(podLabels={"a": "1", "b": "2"}) == hashed(podLabels={"b": "2", "a": "1"})


def test_it_stays_the_same_from_version_to_version() -> None:
    """A changed value here replaces every pod of every user at the next upgrade."""
    assert hashed() == "b14c3b93da8d1753"
