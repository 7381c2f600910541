"""The real operator as a process of its own, with the rights that its documentation lists."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.cluster_fixtures import REPOSITORY
from tests.operator.integration.api import Api, eventually

ACCOUNT = "operator"
IMAGE = "llama-runtime:1"
RESYNC_SECONDS = 600.0
PROGRAM = ("-m", "llama_operator")
USUAL = (IMAGE, RESYNC_SECONDS, PROGRAM)
RULES = [
    (["llama-operator.dev"], ["llamadeployments"], ["get", "list", "watch"]),
    (["llama-operator.dev"], ["llamadeployments/status"], ["patch"]),
    (
        ["", "policy"],
        ["pods", "services", "poddisruptionbudgets"],
        ["get", "list", "watch", "create", "patch", "delete"],
    ),
    ([""], ["pods/eviction"], ["create"]),
    (["events.k8s.io"], ["events"], ["create"]),
    (["coordination.k8s.io"], ["leases"], ["get", "create", "update"]),
]
"""What docs/operator.md lists; nothing else is granted here."""


def grant(api: Api) -> str:
    """A service account with `RULES` in the namespace; its token."""
    names = {"metadata": {"name": ACCOUNT}}
    api.create("serviceaccounts", {"apiVersion": "v1", "kind": "ServiceAccount", **names})
    rules = [
        {"apiGroups": groups, "resources": resources, "verbs": verbs}
        for groups, resources, verbs in RULES
    ]
    rbac = "rbac.authorization.k8s.io"
    api.create("roles", {"apiVersion": f"{rbac}/v1", "kind": "Role", **names, "rules": rules})
    api.create(
        "rolebindings",
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            **names,
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": api.namespace}],
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": ACCOUNT},
        },
    )
    answer = api.create(
        "serviceaccounts",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
        ACCOUNT,
        "token",
    )
    return str(answer["status"]["token"])


def write_kubeconfig(api: Api, token: str, file: Path, server: str | None = None) -> Path:
    """A kubeconfig with the token, for the test's API server or for one that stands before it."""
    configuration = api.configuration
    cluster: dict[str, Any] = {"server": server or configuration.host}
    if configuration.ssl_ca_cert and server is None:
        cluster["certificate-authority"] = configuration.ssl_ca_cert
    else:
        cluster["insecure-skip-tls-verify"] = True
    file.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "test", "cluster": cluster}],
                "users": [{"name": "test", "user": {"token": token}}],
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
                "current-context": "test",
            }
        )
    )
    return file


class OperatorProcess:
    """Starts, kills and restarts the operator for one namespace."""

    def __init__(
        self, api: Api, directory: Path, token: str, *, server: str | None = None, lease: str = ""
    ) -> None:
        """`server` is asked instead of the API server; `lease` names a Lease of the namespace."""
        self._api = api
        self._kubeconfig = write_kubeconfig(api, token, directory / "kubeconfig", server)
        self._flags = [f"--lease={api.namespace}/{lease}"] if lease else []
        self._log = directory / "operator.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._started_as: tuple[object, ...] = USUAL
        self._health = self._metrics = 0

    def ensure(self) -> None:
        """Have it run with the usual settings, whatever the last test did to it."""
        if self.running and self._started_as != USUAL:
            self.kill()
        if not self.running:
            self._process = None
            self.start()
        self.wait_ready()

    def start(
        self,
        *,
        image: str = IMAGE,
        resync_seconds: float = RESYNC_SECONDS,
        program: tuple[str, ...] = PROGRAM,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        assert not self.running
        self._started_as = (image, resync_seconds, program)
        self._health, self._metrics = free_port(), free_port()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    *program,
                    f"--runtime-image={image}",
                    f"--namespace={self._api.namespace}",
                    f"--resync-seconds={resync_seconds}",
                    f"--health-port={self._health}",
                    f"--metrics-port={self._metrics}",
                    *self._flags,
                ],
                cwd=REPOSITORY / "operator",
                env={
                    **without_cluster(),
                    "KUBECONFIG": str(self._kubeconfig),
                    "PYTHONPATH": f"{REPOSITORY / 'operator'}:{REPOSITORY}",
                    **(environment or {}),
                },
                stdout=log,
                stderr=log,
            )

    def wait_ready(self) -> None:
        eventually(self._ready)

    def pause(self) -> None:
        """SIGSTOP: it sleeps, and nothing in it knows."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        """SIGCONT."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def wait_ended(self) -> int:
        """The exit status of a process that ends by itself."""
        assert self._process is not None
        status = self._process.wait(timeout=600)
        self._process = None
        return status

    def kill(self) -> None:
        """SIGKILL: nothing is finished, nothing is saved."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None

    def forget(self) -> None:
        """Take note that it has ended."""
        assert not self.running
        self._process = None

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        assert self._process is not None
        self._process.terminate()
        status = self._process.wait(timeout=120)
        self._process = None
        return status

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        return self._log.read_text()

    def health(self) -> int:
        return get(f"http://127.0.0.1:{self._health}/healthz")[0]

    @property
    def leading(self) -> bool:
        assert self.running, self.log
        return self.metrics().get("llama_operator_leading") == 1

    def metrics(self) -> dict[str, float]:
        """Every sample by its name and labels, as in the exposition."""
        _, text = get(f"http://127.0.0.1:{self._metrics}/metrics")
        lines = (line for line in text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}

    def requests(self) -> float:
        """Requests to the API server, the watches apart."""
        return sum(
            value
            for name, value in self.metrics().items()
            if name.startswith("llama_operator_api_requests_total{")
        )

    def writes(self) -> float:
        """Requests to the API server that were no mere questions."""
        return sum(
            value
            for name, value in self.metrics().items()
            if name.startswith("llama_operator_api_requests_total{") and 'verb="GET"' not in name
        )

    def resyncs(self) -> float:
        """Full lists so far."""
        return self.metrics()["llama_operator_resyncs_total"]

    def _ready(self) -> bool:
        assert self.running, self.log
        return get(f"http://127.0.0.1:{self._health}/readyz")[0] == 200


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def without_cluster() -> dict[str, str]:
    """The environment without what a pod gets, so that KUBECONFIG counts."""
    return {name: value for name, value in os.environ.items() if not name.startswith("KUBERNETES_")}
