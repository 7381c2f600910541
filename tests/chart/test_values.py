"""The values' schema: what it takes and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
import yaml

from tests.chart.conftest import CHART, DEFAULT, EVERYTHING, NAMESPACED, as_flags
from tests.cluster_fixtures import Cluster

SCHEMA = json.loads((CHART / "values.schema.json").read_text())


@pytest.mark.parametrize("values", [DEFAULT, NAMESPACED, EVERYTHING])
def test_takes(values: dict[str, Any]) -> None:
    jsonschema.validate(values, SCHEMA)


def test_takes_the_defaults() -> None:
    jsonschema.validate(yaml.safe_load((CHART / "values.yaml").read_text()), SCHEMA)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"replicas": 0}, "replicas"),
        ({"image": {"repo": "x"}}, "repo"),
        ({"logLevel": "verbose"}, "logLevel"),
        ({"crds": {"install": "yes"}}, "install"),
        ({"watchNamespaces": "default"}, "watchNamespaces"),
        ({"watchNamespaces": ["Team A"]}, "watchNamespaces"),
        ({"metrics": {"serviceMonitor": {"interval": "often"}}}, "interval"),
        ({"resources": {"cpu": 1}}, "cpu"),
        ({"tolerations": [{"effect": "Never"}]}, "effect"),
    ],
)
def test_refuses(control_plane: Cluster, values: dict[str, Any], complaint: str) -> None:
    result = control_plane.run_helm("template", "llama", str(CHART), *as_flags(values))

    assert result.returncode != 0
    assert "values don't meet the specifications of the schema" in result.stderr
    assert complaint in result.stderr


def test_takes_what_helm_adds_for_a_part_of_another_chart(control_plane: Cluster) -> None:
    result = control_plane.run_helm(
        "template", "llama", str(CHART), *as_flags({"global": {"registry": "x"}})
    )

    assert result.returncode == 0, result.stderr
