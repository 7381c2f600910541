"""The operator with the rights of the chart's Roles and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chart.conftest import CHART
from tests.cluster_fixtures import Cluster
from tests.operator.integration.api import Api, eventually
from tests.operator.integration.deployment import Deployment
from tests.operator.integration.process import OperatorProcess


@pytest.fixture
def operator(
    control_plane: Cluster, crd: None, namespace: str, tmp_path: Path
) -> Iterator[tuple[OperatorProcess, Api]]:
    """As the chart's account, in its namespace; its Deployment finds no node here."""
    result = control_plane.run_helm(
        "install", namespace, str(CHART), "--namespace", namespace, "--set", "crds.install=false",
        "--set-json", f'watchNamespaces=["{namespace}"]', "--set-json",
        'nodeSelector={"llama-operator.dev/no-node": "has-this"}',
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    account = f"{namespace}-llama-operator"
    token = control_plane.ok("create", "token", account, "-n", namespace).strip()
    api = Api(control_plane, namespace)
    process = OperatorProcess(api, tmp_path, token, lease=account)
    yield process, api
    if process.running:
        process.kill()
    control_plane.run_helm("uninstall", namespace, "--namespace", namespace)
    api.close()


def test_roles_are_enough(operator: tuple[OperatorProcess, Api], control_plane: Cluster) -> None:
    process, api = operator
    chat = Deployment(api)
    assert not json.loads(
        control_plane.ok(
            "get", "clusterrolebindings", "-o", "json", "-l",
            f"app.kubernetes.io/instance={api.namespace}",
        )
    )["items"]  # fmt: skip

    process.start()
    process.wait_ready()
    assert process.leading
    chat.bring_up(replicas=2)
    api.delete("services", "chat")
    eventually(lambda: api.get("services", "chat") is not None)
    api.patch("poddisruptionbudgets", "chat", {"spec": {"maxUnavailable": 3}})
    eventually(lambda: budget(api)["maxUnavailable"] == 1)
    chat.change(replicas=0)
    eventually(lambda: chat.settled() and api.get("pods", "chat-0") is None)

    assert "forbidden" not in process.log.lower()
    assert process.stop() == 0
    lease = api.get("leases", f"{api.namespace}-llama-operator")
    assert lease is not None
    assert "holderIdentity" not in lease["spec"]
    chat.delete()
    eventually(lambda: api.get("llamadeployments", "chat") is None)


def budget(api: Api) -> dict[str, int]:
    found = api.get("poddisruptionbudgets", "chat")
    assert found is not None
    return dict(found["spec"])
