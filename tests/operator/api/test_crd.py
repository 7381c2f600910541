"""The CRD against the models, and the schema against the real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from generated.crd import build_crd, build_schema
from llama_operator.api import LlamaDeployment
from tests.cluster_fixtures import Cluster
from tests.operator.api.conftest import ApiServer
from tests.operator.api.manifests import MINIMAL, manifest

FULL: dict[str, Any] = {
    "spec.replicas": 3,
    "spec.model": {"source": "pvc://models/m.gguf", "sha256": "0f" * 32, "alias": "llama-3"},
    "spec.kv": {"layout": "Unified", "maxSequences": 8, "totalContext": 8192, "typeK": "q8_0"},
    "spec.engine": {"gpuLayers": 20, "threads": 2, "splitMode": "Row", "tensorSplit": [1, 2.5]},
    "spec.resources": {"cpu": 2, "memory": "4Gi", "gpus": 2, "gpuResourceName": "amd.com/gpu"},
    "spec.numa": {"policy": "Required"},
    "spec.rollout": {"maxUnavailable": 2, "drainTimeout": "90s"},
    "spec.server": {"queueLimit": 0, "apiKeySecretRef": {"name": "keys", "key": "token"}},
    "spec.image": "registry.example/llama-runtime:1",
    "spec.imagePullPolicy": "Always",
    "spec.imagePullSecrets": [{"name": "registry"}],
    "spec.nodeSelector": {"gpu": "yes"},
    "spec.tolerations": [{"key": "gpu", "operator": "Exists"}],
    "spec.affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
                ]
            }
        },
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 1,
                    "podAffinityTerm": {
                        "topologyKey": "zone",
                        "labelSelector": {"matchLabels": {"app": "chat"}},
                    },
                }
            ]
        },
    },
    "spec.priorityClassName": "high",
    "spec.runtimeClassName": "nvidia",
    "spec.schedulerName": "topo-aware-scheduler",
    "spec.podLabels": {"team": "chat"},
    "spec.podAnnotations": {"note": "x" * 1000},
}


def test_is_the_same_each_time() -> None:
    assert build_crd() == build_crd()


def test_the_schema_is_structural() -> None:
    for path, node in walk(build_schema()):
        assert "$ref" not in node, path
        assert "anyOf" not in node, path
        assert "x-kubernetes-preserve-unknown-fields" not in node, path
        assert ("type" in node) != node.get("x-kubernetes-int-or-string", False), path


def test_every_field_is_described() -> None:
    for path, node in walk(build_schema()):
        described = path[-1:] != ("[]",) and "affinity" not in path and path[:1] != ("metadata",)
        if described and path[-1:] != ("{}",):
            assert node.get("description", "").strip(), path


def test_lists_of_objects_are_maps_or_atomic() -> None:
    for path, node in walk(build_schema()):
        if node.get("type") == "array" and "properties" in node["items"] and "affinity" not in path:
            assert node.get("x-kubernetes-list-type") in ("map", "atomic"), path


def test_the_smallest_resource_gets_the_defaults_of_the_models(api_server: ApiServer) -> None:
    stored = api_server.ask(MINIMAL).stored

    assert stored is not None
    read = LlamaDeployment.from_json(stored)
    assert read.spec == LlamaDeployment.from_json(MINIMAL).spec
    wanted = LlamaDeployment.from_json(MINIMAL).spec.to_json()
    empty = {key for key, value in wanted.items() if value in ([], {})}
    assert stored["spec"] == {key: value for key, value in wanted.items() if key not in empty}


@pytest.mark.parametrize("part", ["kv", "engine", "resources", "numa", "rollout", "server"])
def test_a_part_that_is_given_gets_the_rest_of_its_defaults(
    api_server: ApiServer, part: str
) -> None:
    stored = api_server.ask(manifest({f"spec.{part}": {}})).stored

    assert stored is not None
    assert stored["spec"][part] == LlamaDeployment.from_json(MINIMAL).spec.to_json()[part]


def test_everything_at_once_is_stored_as_it_was_written(api_server: ApiServer) -> None:
    answer = api_server.ask(manifest(FULL))

    assert answer.complaints == ()
    assert answer.stored is not None
    for path, value in FULL.items():
        found = answer.stored["spec"][path.removeprefix("spec.")]
        given = {key: found[key] for key in value} if isinstance(value, dict) else found
        assert given == value
    assert LlamaDeployment.from_json(answer.stored).spec.engine.tensor_split == (1, 2.5)


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        ("spec.kv.kvNSeqMax", 4, 'unknown field "spec.kv.kvNSeqMax"'),
        ("spec.affinity", {"nodeAfinity": {}}, 'unknown field "spec.affinity.nodeAfinity"'),
        ("spec.model", {}, "spec.model.source: Required value"),
        ("spec.model.source", "", "spec.model.source"),
        ("spec.kv.contextPerSequence", 0, "greater than or equal to 1"),
        ("spec.kv.maxSequences", 0, "greater than or equal to 1"),
        ("spec.kv.maxSequences", 257, "less than or equal to 256"),
        ("spec.kv.typeK", "q3_k", 'supported values: "f32", "f16", "bf16", "q8_0"'),
        ("spec.kv.layout", "unified", 'supported values: "Partitioned", "Unified"'),
        ("spec.engine.gpuLayers", -2, "greater than or equal to -1"),
        ("spec.resources.gpus", -1, "greater than or equal to 0"),
        ("spec.resources.cpu", 0.5, "must be of type"),
        ("spec.replicas", -1, "greater than or equal to 0"),
        ("spec.replicas", 1001, "less than or equal to 1000"),
        ("spec.rollout.maxUnavailable", 0, "greater than or equal to 1"),
        ("spec.numa.policy", "Strict", 'supported values: "Preferred", "Required", "None"'),
        ("spec.imagePullSecrets", [{"name": "a"}, {"name": "a"}], "Duplicate value"),
    ],
)
def test_refuses_values_outside_the_schema(
    api_server: ApiServer, path: str, value: Any, complaint: str
) -> None:
    answer = api_server.ask(manifest({path: value}))

    assert answer.stored is None
    assert answer.complains(complaint), answer.complaints


def test_kubectl_explains_the_fields(control_plane: Cluster, crd: None) -> None:
    text = control_plane.ok("explain", "llama.spec.kv.maxSequences")

    assert "n_seq_max" in text


def test_scale_and_columns(control_plane: Cluster, crd: None, namespace: str) -> None:
    document = manifest({"metadata.namespace": namespace, "spec.replicas": 0})
    control_plane.ok("apply", "-f", "-", stdin=json.dumps(document))
    status = {
        "ready": "1/2",
        "model": "llama-3",
        "replicas": 2,
        "selector": "llama-operator.dev/deployment=chat",
        "kv": {"spanRatio": 0.25},
        "restart": {"nextTime": "2026-07-01T01:00:00Z"},
        "conditions": [
            {
                "type": "NUMAAligned",
                "status": "False",
                "reason": "GpuRemote",
                "message": "",
                "lastTransitionTime": "2026-07-01T00:00:00Z",
            }
        ],
    }
    control_plane.ok(
        "patch", "llama", "chat", "-n", namespace, "--subresource=status", "--type=merge",
        "-p", json.dumps({"status": status}),
    )  # fmt: skip

    scale = control_plane.get("llama", "chat", "-n", namespace, "--subresource=scale")
    assert scale["spec"] == {}
    assert scale["status"] == {"replicas": 2, "selector": status["selector"]}
    head, row = control_plane.ok("get", "llama", "-n", namespace).splitlines()
    assert head.split(maxsplit=6)[:6] == ["NAME", "READY", "MODEL", "SEQUENCES", "CONTEXT", "NUMA"]
    assert row.split()[:8] == [
        "chat", "1/2", "llama-3", "16", "4096", "GpuRemote", "0.25", "2026-07-01T01:00:00Z",
    ]  # fmt: skip
    control_plane.ok("scale", "llama", "chat", "-n", namespace, "--replicas=3")
    assert control_plane.get("llama", "chat", "-n", namespace)["spec"]["replicas"] == 3


def walk(node: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Every node of a schema with its path; `[]` stands for items, `{}` for values."""
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from walk(child, (*path, name))
    if "items" in node:
        yield from walk(node["items"], (*path, "[]"))
    if isinstance(node.get("additionalProperties"), dict):
        yield from walk(node["additionalProperties"], (*path, "{}"))
