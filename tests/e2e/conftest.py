"""The operator from its chart, the model on a claim, one LlamaDeployment."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster_fixtures import REPOSITORY, Cluster, Images, testcluster
from tests.e2e.chart import Release
from tests.e2e.deployment import Deployment


@pytest.fixture(scope="session")
def model_folder() -> Path:
    """The folder on every node that holds model.gguf and what the tests put beside it."""
    model = Path(os.environ["LLAMA_TEST_MODEL"])
    folder = REPOSITORY / "build/test-models"
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (("model.gguf", None), ("corrupt.gguf", b"GGUF" + bytes(64))):
        path = folder / name
        if content is not None:
            path.write_bytes(content)
        elif not path.exists() or path.stat().st_size != model.stat().st_size:
            path.write_bytes(model.read_bytes())
    return folder


@pytest.fixture(scope="session")
def operator(node_0: Cluster, images: Images) -> Iterator[Release]:
    """The chart, installed for the whole cluster."""
    release = Release(node_0, images)
    release.install()
    yield release
    release.uninstall()


@pytest.fixture
def models(namespace: str, node_0: Cluster, model_folder: Path) -> Iterator[str]:
    """A claim named ``models`` over the model's folder."""
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": namespace},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadOnlyMany"],
            "storageClassName": "",
            "hostPath": {"path": str(model_folder), "type": "Directory"},
            "claimRef": {"namespace": namespace, "name": "models"},
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "models"},
        "spec": {
            "accessModes": ["ReadOnlyMany"],
            "storageClassName": "",
            "volumeName": namespace,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    node_0.ok("apply", "-f", "-", stdin=json.dumps(volume))
    node_0.ok("apply", "-n", namespace, "-f", "-", stdin=json.dumps(claim))
    yield "models"
    node_0.run("delete", "pv", namespace, "--wait=false")


@pytest.fixture
def chat(operator: Release, namespace: str, models: str) -> Iterator[Deployment]:
    """A LlamaDeployment named chat; apply it in the test, it is deleted afterwards."""
    deployment = Deployment(operator.cluster, namespace, "chat")
    yield deployment
    operator.cluster.run("delete", "llama", "chat", "-n", namespace, "--wait=false")


@pytest.fixture
def numa_chat(chat: Deployment, numa_node: Cluster, model_folder: Path) -> Deployment:
    """The same, with the model on numa-node as well."""
    testcluster("copy", str(model_folder / "model.gguf"), f"numa-node:{model_folder}/model.gguf")
    return chat
