"""Releases whose names are long, dotted or begin with a digit: Helm takes them, so must we."""

from __future__ import annotations

import pytest
import yaml

from tests.chart.conftest import CHART, documents
from tests.cluster_fixtures import Cluster

LONGEST = 53  # Helm's own limit.


@pytest.mark.parametrize(
    ("release", "name"),
    [
        ("chat", "chat-llama-operator"),
        ("llama-operator", "llama-operator"),
        ("team.models.v2", "team-models-v2-llama-operator"),
        ("7b", "o-7b-llama-operator"),
        ("a" * 41, "a" * 41 + "-llama-operato"),
        ("a" * LONGEST, "a" * LONGEST + "-l"),
        ("b" + "-" * 39 + "c", "b" + "-" * 39 + "c-llama-operato"),
    ],
)
def test_the_api_server_takes_every_object(
    control_plane: Cluster, namespace: str, release: str, name: str
) -> None:
    result = control_plane.run_helm(
        "template", release, str(CHART), "--namespace", namespace,
        "--set", "replicas=2", "--set", "crds.install=false",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    found = documents(result.stdout)
    assert {item["metadata"]["name"] for item in found if item["kind"] == "Deployment"} == {name}

    # The Pod of helm test waits for a ServiceAccount that a dry run does not make.
    wanted = [item for item in found if item["kind"] != "Pod"]
    said = control_plane.ok(
        "apply", "--dry-run=server", "--server-side", "--validate=strict", "-f", "-",
        stdin=yaml.safe_dump_all(wanted),
    )  # fmt: skip

    assert said.count("serverside-applied (server dry run)") == len(wanted)
