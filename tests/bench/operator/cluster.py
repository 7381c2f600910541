"""A control plane of its own, KWOK as its kubelets, and one answer for every runtime."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

from tests.bench.operator.audit import AuditLog, policy
from tests.bench.operator.subject import REPOSITORY
from tests.cluster_fixtures import Cluster
from tests.operator.integration.process import RULES
from tests.own_control_plane import own_control_plane

KWOK = "0.8.0"
NAMESPACE = "bench"
USER = f"system:serviceaccount:{NAMESPACE}:operator"
NODES = 8
MANAGEMENT_PORT = 8081
SETTLE_SECONDS = 300

RUNTIME_STATUS = {
    "version": 1,
    "state": "Serving",
    "model": {"alias": "m", "loaded": True, "loadProgress": 1.0},
    "kv": {"contextTokens": 65536, "bytes": 1 << 30, "spanRatio": 0.0,
           "sequences": {"running": 0, "cached": 0, "free": 16}},
    "engine": {"gpuLayers": 0, "devices": ["CPU"]},
    "numa": {"verdict": "Aligned", "message": "", "cpus": "0", "cpuNodes": [0], "mems": "0"},
}  # fmt: skip


@contextmanager
def bench_cluster(folder: Path) -> Iterator[tuple[Cluster, AuditLog]]:
    """Up with nodes, rights and a claim; down and away afterwards."""
    state = folder / "cluster"

    def note_requests(state: Path) -> None:
        (state / "audit-policy.yaml").write_text(policy(USER))

    with own_control_plane(state, note_requests) as plane:
        plane.apply_crd()
        _prepare(plane.cluster)
        kwok = _start_kwok(plane.cluster, folder)
        try:
            _wait_for_nodes(plane.cluster)
            yield plane.cluster, AuditLog(state / "audit.log")
        finally:
            kwok.kill()
            kwok.wait()


def operator_kubeconfig(cluster: Cluster, folder: Path) -> Path:
    """A kubeconfig with a token of the operator's account."""
    token = cluster.ok("create", "token", "operator", "-n", NAMESPACE, "--duration=8h").strip()
    document = yaml.safe_load(cluster.kubeconfig.read_text())
    document["users"][0]["user"] = {"token": token}
    file = folder / "operator.kubeconfig"
    file.write_text(yaml.safe_dump(document))
    return file


def own_address() -> str:
    """This machine's address: that of every pod. A loopback one is refused by the API server."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("203.0.113.1", 9))  # No packet is sent.
        address: str = probe.getsockname()[0]
        return address


def kwok_program() -> Path:
    """KWOK, built once into the cache."""
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "llama-operator"
    cache = Path(os.environ.get("LLAMA_OPERATOR_CACHE", default))
    folder = cache / "kwok" / KWOK
    program = folder / "kwok"
    if not program.exists():
        print(f"kwok            building KWOK {KWOK}: about 4 min the first time", flush=True)
        subprocess.run(
            ["go", "install", f"sigs.k8s.io/kwok/cmd/kwok@v{KWOK}"],
            env={**os.environ, "GOBIN": str(folder), "GOCACHE": str(cache / "go-build"),
                 "CGO_ENABLED": "0"},
            cwd="/",
            check=True,
        )  # fmt: skip
    return program


def _start_kwok(cluster: Cluster, folder: Path) -> subprocess.Popen[bytes]:
    address, stages = own_address(), folder / "stages.yaml"
    text = (REPOSITORY / "tests/bench/operator/stages.yaml").read_text()
    stages.write_text(text.replace("ADDRESS", address))
    with (folder / "kwok.log").open("wb") as log:
        return subprocess.Popen(
            [kwok_program(), f"--kubeconfig={cluster.kubeconfig}", f"--config={stages}",
             "--manage-all-nodes=true", "--node-lease-duration-seconds=40",
             f"--node-ip={address}"],
            stdout=log, stderr=log,
        )  # fmt: skip


def _prepare(cluster: Cluster) -> None:
    cluster.ok("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(_objects()))
    claim = ("-n", NAMESPACE, "pvc/models", "--timeout=120s")
    cluster.ok("wait", "--for=jsonpath={.status.phase}=Bound", *claim)


def _objects() -> list[dict[str, Any]]:
    rbac = "rbac.authorization.k8s.io"
    rules = [
        {"apiGroups": groups, "resources": resources, "verbs": verbs}
        for groups, resources, verbs in RULES
    ]
    size = {"storage": "1Gi"}
    volume: dict[str, Any] = {"accessModes": ["ReadOnlyMany"], "storageClassName": ""}
    nodes = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"kwok-{index}"}}
        for index in range(NODES)
    ]
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {"apiVersion": "v1", "kind": "ServiceAccount",
         "metadata": {"name": "operator", "namespace": NAMESPACE}},
        {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": "operator"},
         "rules": rules},
        {"apiVersion": f"{rbac}/v1", "kind": "ClusterRoleBinding",
         "metadata": {"name": "operator"},
         "subjects": [{"kind": "ServiceAccount", "name": "operator", "namespace": NAMESPACE}],
         "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "operator"}},
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "models"},
         "spec": {**volume, "capacity": size, "hostPath": {"path": "/models"},
                  "claimRef": {"name": "models", "namespace": NAMESPACE}}},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
         "metadata": {"name": "models", "namespace": NAMESPACE},
         "spec": {**volume, "volumeName": "models", "resources": {"requests": size}}},
        *nodes,
    ]  # fmt: skip


def _ready_nodes(cluster: Cluster) -> int:
    return sum(
        condition == {"type": "Ready", "status": "True"}
        for node in cluster.get("nodes")["items"]
        for condition in (
            {"type": item["type"], "status": item["status"]}
            for item in node.get("status", {}).get("conditions", [])
        )
    )


def _wait_for_nodes(cluster: Cluster) -> None:
    for _ in range(SETTLE_SECONDS):
        if _ready_nodes(cluster) == NODES:
            return
        time.sleep(1)
    raise RuntimeError("The nodes did not become Ready in 5 minutes: kwok.log says why.")


@asynccontextmanager
async def runtimes() -> AsyncIterator[None]:
    """Answers `/status` for every pod: a runtime that serves."""
    body = json.dumps(RUNTIME_STATUS).encode()

    async def status(_: web.Request) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    application = web.Application()
    application.router.add_get("/status", status)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, own_address(), MANAGEMENT_PORT).start()
    try:
        yield
    finally:
        await runner.cleanup()
