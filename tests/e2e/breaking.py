"""What an administrator or an accident does to node-0's cluster while pods serve."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster_fixtures import REPOSITORY, Cluster, cannot, existing_cluster, testcluster
from tests.e2e.deployment import Deployment


def api_server_away(seconds: float) -> None:
    """Kill the API server, wait, start it again."""
    if existing_cluster() is not None:
        cannot("This stops the API server: it is not for a cluster that others use.")
    state = Path(os.environ.get("TESTCLUSTER_STATE", REPOSITORY / "build/cluster"))
    record = json.loads((state / "processes/kube-apiserver.json").read_text())
    os.kill(record["pid"], signal.SIGKILL)
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
