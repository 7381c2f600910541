"""The real operator against the real API server and controller-manager; no node is needed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from llama_operator import api as resource_api
from tests.cluster_fixtures import REPOSITORY, Cluster
from tests.operator.integration.api import Api
from tests.operator.integration.deployment import Deployment
from tests.operator.integration.kubelet import Kubelet
from tests.operator.integration.process import OperatorProcess


@pytest.fixture(scope="package")
def crd(control_plane: Cluster) -> None:
    """The CRD of this tree. It stays: other tests may use it at the same time."""
    crd_file = REPOSITORY / "crds/llamadeployments.yaml"
    control_plane.ok("apply", "--server-side", "--force-conflicts", "-f", str(crd_file))
    name = f"crd/{resource_api.PLURAL}.{resource_api.GROUP}"
    control_plane.ok("wait", "--for=condition=Established", name, "--timeout=120s")


@pytest.fixture
def api(control_plane: Cluster, namespace: str, crd: None) -> Iterator[Api]:
    api = Api(control_plane, namespace)
    yield api
    api.close()


@pytest.fixture
def kubelet(api: Api) -> Kubelet:
    return Kubelet(api)


@pytest.fixture
def chat(api: Api) -> Deployment:
    """The LlamaDeployment `chat`; it is made by the test."""
    return Deployment(api)


@pytest.fixture
def stopped_operator(api: Api, tmp_path: Path) -> Iterator[OperatorProcess]:
    """An operator that the test starts."""
    process = OperatorProcess(api, tmp_path)
    yield process
    if process.running:
        process.kill()


@pytest.fixture
def operator(stopped_operator: OperatorProcess) -> OperatorProcess:
    """An operator that runs."""
    stopped_operator.start()
    stopped_operator.wait_ready()
    return stopped_operator
