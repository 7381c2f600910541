"""What an administrator or an accident does to node-0's cluster while pods serve."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cluster_fixtures import (
    Cluster,
    cannot,
    existing_cluster,
    signal_part,
    state_folder,
    testcluster,
)
from tests.e2e.deployment import Deployment


def api_server_away(seconds: float) -> None:
    """Kill the API server, wait, start it again."""
    if existing_cluster() is not None:
        cannot("This stops the API server: it is not for a cluster that others use.")
    signal_part(state_folder(), "kube-apiserver", signal.SIGKILL)
    time.sleep(seconds)
    testcluster("up")


@contextmanager
def cordoned(cluster: Cluster, node: str) -> Iterator[None]:
    """No new pods on the node meanwhile."""
    cluster.ok("cordon", node)
    try:
        yield
    finally:
        cluster.ok("uncordon", node)


def drain(cluster: Cluster, node: str, deployment: Deployment) -> bool:
    """kubectl drain of the deployment's pods for 40 s; whether all of them could go."""
    selector = f"llama-operator.dev/deployment={deployment.name}"
    drained = cluster.run(
        "drain", node, f"--pod-selector={selector}", "--delete-emptydir-data", "--timeout=40s"
    )
    said = drained.stdout + drained.stderr
    assert drained.returncode == 0 or "disruption budget" in said or "timeout" in said, said
    return drained.returncode == 0
