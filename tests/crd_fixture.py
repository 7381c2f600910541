"""The CRD of this tree on the API server, without Helm."""

from __future__ import annotations

import time

import pytest

from llama_operator import api
from tests.cluster_fixtures import REPOSITORY, Cluster


@pytest.fixture(scope="session")
def crd(control_plane: Cluster) -> None:
    """The CRD of this tree. It stays: other tests may use it at the same time."""
    control_plane.ok(
        "apply", "--server-side", "--force-conflicts", "--field-manager=llama-operator-tests",
        "-f", str(REPOSITORY / "crds/llamadeployments.yaml"),
    )  # fmt: skip
    # Established comes before discovery; api-resources renews kubectl's own copy of it.
    for _ in range(300):
        if api.PLURAL in control_plane.ok("api-resources", f"--api-group={api.GROUP}"):
            return
        time.sleep(0.2)
    pytest.fail(f"The API server does not offer {api.PLURAL} a minute after it took the CRD.")
