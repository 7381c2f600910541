"""The real API server with the CRD of this tree, asked without storing anything."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from kubernetes import client, config

from llama_operator import api
from tests.cluster_fixtures import Cluster
from tests.crd_fixture import crd

__all__ = ["crd"]


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
def api_server(control_plane: Cluster, crd: None) -> Iterator[ApiServer]:
    connection = config.new_client_from_config(  # type: ignore[no-untyped-call]
        str(control_plane.kubeconfig)
    )
    yield ApiServer(client.CustomObjectsApi(connection))
    connection.close()
