"""The cluster that tests run on: the control plane, node-0, numa-node and fresh namespaces.

Parts start when the first test asks for them and stay up for the next run; ``make
cluster-down`` stops them. A test whose part can't run here is skipped with the reason;
under CI that is a failure. LLAMA_TEST_KUBECONFIG=FILE uses an existing cluster instead.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Cluster:
    """A reachable API server and the programs that talk to it."""

    kubeconfig: Path
    kubectl: Path
    helm: Path

    def run(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run kubectl; the caller looks at the return code."""
        return subprocess.run(
            [str(self.kubectl), "--kubeconfig", str(self.kubeconfig), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )

    def ok(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl, fail on an error, return its output."""
        result = self.run(*arguments, stdin=stdin)
        assert result.returncode == 0, (
            f"kubectl {' '.join(arguments)}: {result.stdout}{result.stderr}"
        )
        return result.stdout

    def get(self, *arguments: str, stdin: str | None = None) -> dict[str, Any]:
        """``kubectl get -o json`` of the arguments."""
        text = self.ok("get", *arguments, "-o", "json", stdin=stdin)
        document: dict[str, Any] = json.loads(text)
        return document

    def run_helm(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run helm; the caller looks at the return code."""
        return subprocess.run(
            [str(self.helm), "--kubeconfig", str(self.kubeconfig), *arguments],
            capture_output=True,
            text=True,
            check=False,
        )


@dataclass(frozen=True)
class Images:
    """References of the images under test, and the archives that nodes import them from."""

    operator: str
    runtime: str
    archives: tuple[str, ...]

    def load(self) -> None:
        """Import them on every node that runs."""
        testcluster("load", *self.archives)


def cannot(reason: str) -> NoReturn:
    """Skip with the reason; under CI a test that can't run is a failure."""
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def cluster_program() -> str:
    """The path of the cluster's own program, which is built first; skip where it can't be."""
    built = subprocess.run(
        [REPOSITORY / "tests/cluster/build", "--quiet"], capture_output=True, text=True, check=False
    )
    if built.returncode != 0:
        cannot(f"tests/cluster/build failed: {built.stderr.strip()}")
    return built.stdout.strip()


def testcluster(*arguments: str) -> str:
    """Run the cluster's own program; skip the test with its last line when it can't."""
    result = subprocess.run(
        [cluster_program(), *arguments], capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        lines = (result.stderr.strip() or result.stdout.strip()).splitlines()
        cannot(f"testcluster {' '.join(arguments)}: {lines[-1] if lines else 'no output'}")
    return result.stdout


def state_folder() -> Path:
    """Where the cluster's own program keeps what it started."""
    return Path(os.environ.get("TESTCLUSTER_STATE", REPOSITORY / "build/cluster"))


def signal_part(state: Path, part: str, number: signal.Signals) -> None:
    """Send a signal to a part, such as `etcd` or `kube-apiserver`, of the cluster kept there."""
    record = json.loads((state / "processes" / f"{part}.json").read_text())
    os.kill(record["pid"], number)


def existing_cluster() -> Cluster | None:
    """The cluster that LLAMA_TEST_KUBECONFIG names, with kubectl and helm from PATH."""
    kubeconfig = os.environ.get("LLAMA_TEST_KUBECONFIG")
    if not kubeconfig:
        return None
    kubectl, helm = shutil.which("kubectl"), shutil.which("helm")
    if kubectl is None or helm is None:
        cannot("LLAMA_TEST_KUBECONFIG is set: kubectl and helm must be on PATH.")
    return Cluster(Path(kubeconfig), Path(kubectl), Path(helm))


@pytest.fixture(scope="session")
def control_plane() -> Cluster:
    """A real API server, scheduler and controller manager; a demo on it makes way."""
    if (cluster := existing_cluster()) is not None:
        return cluster
    testcluster("up")
    state = state_folder()
    cluster = Cluster(state / "kubeconfig", state / "bin/kubectl", state / "bin/helm")
    for namespace in ("llama-system", "llama-test-system"):
        cluster.run_helm("uninstall", "llama-operator", "--namespace", namespace, "--wait")
    cluster.run("delete", "namespace", "llama-demo", "--ignore-not-found", "--wait=false")
    return cluster


@pytest.fixture(scope="session")
def images() -> Images:
    """The images that the Dockerfile builds from this tree."""
    built = subprocess.run(
        [REPOSITORY / ".venv/bin/python", REPOSITORY / "tools/images.py", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode != 0:
        cannot(f"tools/images.py failed: {built.stderr.strip()}")
    document = json.loads(built.stdout)
    return Images(
        document["operator"]["reference"],
        document["runtime"]["reference"],
        tuple(image["archive"] for image in document.values()),
    )


@pytest.fixture(scope="session")
def node_0(control_plane: Cluster, images: Images) -> Cluster:
    """The cluster with this machine as a real node that has the images."""
    if existing_cluster() is None:
        testcluster("node-up")
        images.load()
    return control_plane


@pytest.fixture(scope="session")
def numa_node(node_0: Cluster, images: Images) -> Cluster:
    """The cluster with a second real node that has two NUMA nodes and a fake GPU on each."""
    if existing_cluster() is not None:
        if node_0.run("get", "node", "numa-node").returncode != 0:
            cannot("The existing cluster has no node named numa-node.")
        return node_0
    testcluster("numa-node-up")
    images.load()
    return node_0


@pytest.fixture
def namespace(control_plane: Cluster) -> Iterator[str]:
    """A fresh namespace, deleted afterwards."""
    name = f"test-{secrets.token_hex(4)}"
    control_plane.ok("create", "namespace", name)
    yield name
    control_plane.run("delete", "namespace", name, "--wait=false")
