"""The real API server with the CRD of this tree, asked without storing anything."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from kubernetes import client, config

from llama_operator import api
from tests.cluster_fixtures import REPOSITORY, Cluster

CRD_FILE = REPOSITORY / "crds/llamadeployments.yaml"
CRD_NAME = f"{api.PLURAL}.{api.GROUP}"


@dataclass(frozen=True)
class Answer:
    """What the API server said to one resource."""

    stored: dict[str, Any] | None
    """The resource as it would be stored; None when it was refused."""

    complaints: tuple[str, ...]
    """One for each cause, as `spec.kv.layout: …`."""

    def complains(self, text: str) -> bool:
        return any(text in complaint for complaint in self.complaints)


@dataclass(frozen=True)
class ApiServer:
    """Creates resources with dryRun, under strict validation as kubectl does it."""

    resources: client.CustomObjectsApi

    def ask(self, manifest: dict[str, Any]) -> Answer:
        try:
            stored: Any = self.resources.create_namespaced_custom_object(
                api.GROUP,
                api.VERSION,
                "default",
                api.PLURAL,
                manifest,
                dry_run="All",
                field_validation="Strict",
            )
        except client.ApiException as error:
            status = json.loads(error.body or "{}")
            causes = status.get("details", {}).get("causes", [])
            complaints = [f"{cause.get('field')}: {cause['message']}" for cause in causes]
            return Answer(None, tuple(complaints) or (status["message"],))
        return Answer(stored, ())


@pytest.fixture(scope="package")
def crd(control_plane: Cluster) -> Iterator[None]:
    """The CRD of this tree; taken away again unless it was there before."""
    existed = control_plane.run("get", "crd", CRD_NAME).returncode == 0
    control_plane.ok(
        "apply", "--server-side", "--force-conflicts", "--field-manager=llama-operator-tests",
        "-f", str(CRD_FILE),
    )  # fmt: skip
    control_plane.ok("wait", "--for=condition=Established", f"crd/{CRD_NAME}", "--timeout=60s")
    wait_until_discovered(control_plane)
    yield
    if not existed:
        control_plane.ok("delete", "crd", CRD_NAME)


@pytest.fixture(scope="package")
def api_server(control_plane: Cluster, crd: None) -> Iterator[ApiServer]:
    connection = config.new_client_from_config(  # type: ignore[no-untyped-call]
        str(control_plane.kubeconfig)
    )
    yield ApiServer(client.CustomObjectsApi(connection))
    connection.close()


def wait_until_discovered(cluster: Cluster) -> None:
    """Established comes before discovery; api-resources renews kubectl's own copy of it."""
    for _ in range(300):
        if api.PLURAL in cluster.ok("api-resources", f"--api-group={api.GROUP}"):
            return
        time.sleep(0.2)
    pytest.fail(f"The API server does not offer {api.PLURAL} a minute after it took the CRD.")
