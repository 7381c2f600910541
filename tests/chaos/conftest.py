"""A control plane that may be broken, and an operator behind a proxy that misbehaves."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.supervisor import Supervisor
from tests.cluster_fixtures import REPOSITORY, cannot, existing_cluster
from tests.operator.integration.api import Api
from tests.operator.integration.deployment import Deployment
from tests.operator.integration.process import OperatorProcess, grant
from tests.operator.integration.proxy import Proxy
from tests.own_control_plane import ControlPlane, own_control_plane


@pytest.fixture(scope="package")
def plane() -> Iterator[ControlPlane]:
    if existing_cluster() is not None:
        cannot("Chaos stops the API server: it is not for a cluster that others use.")
    with own_control_plane(REPOSITORY / "build/chaos") as plane:
        plane.apply_crd()
        yield plane


@pytest.fixture
def api(plane: ControlPlane) -> Iterator[Api]:
    """A namespace for each test: what one test leaves going is not the next one's."""
    name = f"chaos-{secrets.token_hex(4)}"
    plane.cluster.ok("create", "namespace", name)
    api = Api(plane.cluster, name)
    yield api
    api.close()
    plane.cluster.run("delete", "namespace", name, "--wait=false")


@pytest.fixture
def proxy(api: Api) -> Iterator[Proxy]:
    with Proxy(api) as proxy:
        yield proxy


@pytest.fixture
def operator(api: Api, proxy: Proxy, tmp_path: Path) -> Iterator[Supervisor]:
    """An operator of this test alone, started again whenever it ends, as a kubelet does."""
    process = OperatorProcess(api, tmp_path, grant(api), server=proxy.url)
    with Supervisor(process) as supervisor:
        yield supervisor


@pytest.fixture
def chat(api: Api) -> Deployment:
    return Deployment(api)
