"""helm and the chart of this tree."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from typing import Any

import pytest
import yaml

from tests.cluster_fixtures import REPOSITORY, Cluster
from tests.crd_fixture import crd

__all__ = ["crd"]

CHART = REPOSITORY / "helm/llama-operator"
RELEASE, NAMESPACE = "llama", "llama-chart-test"

DEFAULT: dict[str, Any] = {}
NAMESPACED: dict[str, Any] = {"watchNamespaces": ["team-a", "team-b"], "crds": {"install": False}}
EVERYTHING: dict[str, Any] = {
    "image": {"repository": "registry.example/llama-operator", "tag": "1", "pullPolicy": "Always"},
    "runtimeImage": "registry.example/llama-runtime:1",
    "replicas": 2,
    "imagePullSecrets": [{"name": "registry"}],
    "logLevel": "debug",
    "extraArgs": ["--workers=32"],
    "crds": {"keep": False},
    "serviceAccount": {"name": "operator", "annotations": {"note": "x"}},
    "resources": {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
    "metrics": {
        "serviceMonitor": {"enabled": True, "interval": "15s", "labels": {"release": "prometheus"}},
        "podMonitor": {"enabled": True},
    },
    "nodeSelector": {"pool": "system"},
    "tolerations": [{"key": "system", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]
            }
        }
    },
    "priorityClassName": "system-cluster-critical",
    "podAnnotations": {"note": "x"},
    "podLabels": {"team": "platform", "app.kubernetes.io/name": "ours-wins"},
    "fullnameOverride": "the-operator",
}

Render = Callable[[dict[str, Any]], str]


@pytest.fixture(scope="session")
def render_again(control_plane: Cluster) -> Render:
    """The text that `helm template` makes of some values."""

    def template(values: dict[str, Any]) -> str:
        result = control_plane.run_helm(
            "template", RELEASE, str(CHART), "--namespace", NAMESPACE, *as_flags(values)
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    return template


@pytest.fixture(scope="session")
def render(render_again: Render) -> Render:
    """The same, made once for each set of values."""
    texts: dict[str, str] = {}

    def template(values: dict[str, Any]) -> str:
        key = json.dumps(values)
        if key not in texts:
            texts[key] = render_again(values)
        return texts[key]

    return template


def as_flags(values: dict[str, Any]) -> list[str]:
    """Values as flags of helm."""
    return [part for key in values for part in ("--set-json", f"{key}={json.dumps(values[key])}")]


@cache
def _parse(text: str) -> tuple[dict[str, Any], ...]:
    return tuple(document for document in yaml.safe_load_all(text) if document)


def documents(text: str) -> list[dict[str, Any]]:
    """The objects in a text that helm made, to do with as one likes."""
    return deepcopy(list(_parse(text)))


def only(text: str, kind: str, name: str | None = None) -> dict[str, Any]:
    """The one object of that kind."""
    (found,) = (
        document
        for document in documents(text)
        if document["kind"] == kind and name in (None, document["metadata"]["name"])
    )
    return found
