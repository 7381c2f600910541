"""A control plane for one purpose alone: it can be measured, stopped and broken."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster_fixtures import REPOSITORY, Cluster, cluster_program, signal_part

# Beside a cluster that other tests use.
PORTS_BEYOND = 200


@dataclass(frozen=True)
class ControlPlane:
    """The cluster, and a hand on its processes."""

    cluster: Cluster
    state: Path

    def up(self) -> None:
        """Start whatever of it does not run."""
        _testcluster(self.state, "up")

    def apply_crd(self) -> None:
        """The CRD of this tree, once it is served. `kubectl wait` fails before the first status."""
        crd = str(REPOSITORY / "crds/llamadeployments.yaml")
        self.cluster.ok("apply", "--server-side", "-f", crd)
        for _ in range(600):
            if self.cluster.run("get", "llamadeployments", "-A").returncode == 0:
                return
            time.sleep(0.5)
        raise RuntimeError("The API server did not serve the CRD in 5 minutes.")

    def signal(self, part: str, number: signal.Signals) -> None:
        """Send a signal to a part, such as `etcd` or `kube-apiserver`."""
        signal_part(self.state, part, number)


@contextmanager
def own_control_plane(
    state: Path, prepare: Callable[[Path], None] = lambda state: None
) -> Iterator[ControlPlane]:
    """Up; down and away afterwards. `prepare` gets the empty state folder."""
    _testcluster(state, "down")
    state.mkdir(parents=True, exist_ok=True)
    prepare(state)
    plane = ControlPlane(
        Cluster(state / "kubeconfig", state / "bin/kubectl", state / "bin/helm"), state
    )
    try:
        plane.up()
        yield plane
    finally:
        _testcluster(state, "down")


def _testcluster(state: Path, command: str) -> None:
    base = int(os.environ.get("TESTCLUSTER_PORT_BASE", "16000")) + PORTS_BEYOND
    environment = {
        **os.environ,
        "TESTCLUSTER_STATE": str(state),
        "TESTCLUSTER_PORT_BASE": str(base),
    }
    done = subprocess.run(
        [cluster_program(), command], env=environment, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise RuntimeError(f"testcluster {command}: {done.stdout}{done.stderr}")
