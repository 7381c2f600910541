"""The real operator against the real API server and controller-manager; no node is needed."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from llama_operator import api as resource_api
from tests.cluster_fixtures import REPOSITORY, Cluster
from tests.operator.integration.api import Api
from tests.operator.integration.deployment import Deployment, empty
from tests.operator.integration.kubelet import Kubelet
from tests.operator.integration.process import OperatorProcess, grant
from tests.operator.integration.proxy import Proxy


@pytest.fixture(scope="package")
def crd(control_plane: Cluster) -> None:
    """The CRD of this tree. It stays: other tests may use it at the same time."""
    crd_file = REPOSITORY / "crds/llamadeployments.yaml"
    control_plane.ok("apply", "--server-side", "--force-conflicts", "-f", str(crd_file))
    name = f"crd/{resource_api.PLURAL}.{resource_api.GROUP}"
    control_plane.ok("wait", "--for=condition=Established", name, "--timeout=120s")


@pytest.fixture(scope="package")
def api(control_plane: Cluster, crd: None) -> Iterator[Api]:
    """One namespace for all tests: starting an operator for each would take the most time."""
    name = f"operator-{secrets.token_hex(4)}"
    control_plane.ok("create", "namespace", name)
    api = Api(control_plane, name)
    yield api
    api.close()
    control_plane.run("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="package")
def process(api: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorProcess]:
    process = OperatorProcess(api, tmp_path_factory.mktemp("operator"), grant(api))
    yield process
    if process.running:
        process.kill()


@pytest.fixture
def operator(process: OperatorProcess) -> OperatorProcess:
    """An operator that runs. A test may kill it and start it in another way."""
    process.ensure()
    return process


@pytest.fixture
def kubelet(api: Api) -> Kubelet:
    return Kubelet(api)


@pytest.fixture
def chat(api: Api) -> Iterator[Deployment]:
    """The LlamaDeployment `chat`, which the test makes; afterwards the namespace is empty."""
    yield Deployment(api)
    empty(api)


@pytest.fixture
def alone(control_plane: Cluster, crd: None) -> Iterator[Api]:
    """A namespace in which no other operator acts."""
    name = f"operator-{secrets.token_hex(4)}"
    control_plane.ok("create", "namespace", name)
    api = Api(control_plane, name)
    yield api
    api.close()
    control_plane.run("delete", "namespace", name, "--wait=false")


@pytest.fixture
def proxy(alone: Api) -> Iterator[Proxy]:
    """Between an operator of that namespace and the API server."""
    with Proxy(alone) as found:
        yield found
