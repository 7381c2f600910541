"""The chart as a release on a real cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.cluster_fixtures import REPOSITORY, Cluster, Images

NAMESPACE = "llama-test-system"
RELEASE = "llama-operator"


@dataclass(frozen=True)
class Release:
    """helm upgrade --install and uninstall of the chart with the images under test."""

    cluster: Cluster
    images: Images

    def install(self) -> None:
        """Install and wait until the operator is rolled out."""
        repository, tag = self.images.operator.rsplit(":", 1)
        result = self.cluster.run_helm(
            "upgrade", "--install", "--take-ownership",
            RELEASE, str(REPOSITORY / "helm/llama-operator"),
            "--namespace", NAMESPACE, "--create-namespace",
            "--set", f"image.repository={repository}", "--set", f"image.tag={tag}",
            "--set", f"runtimeImage={self.images.runtime}",
        )  # fmt: skip
        assert result.returncode == 0, result.stderr
        self.cluster.ok(
            "rollout", "status", "deployment/llama-operator", "-n", NAMESPACE, "--timeout=180s"
        )

    def uninstall(self) -> None:
        """Uninstall and wait until its objects are gone."""
        result = self.cluster.run_helm("uninstall", RELEASE, "--namespace", NAMESPACE, "--wait")
        assert result.returncode == 0, result.stderr

    def pods(self) -> list[dict[str, Any]]:
        """The operator's own pods."""
        listed: list[dict[str, Any]] = self.cluster.get(
            "pods", "-n", NAMESPACE, "-l", f"app.kubernetes.io/instance={RELEASE}"
        )["items"]
        return listed

    def kill(self) -> None:
        """Take the operator away with no grace; its Deployment makes a new one."""
        for pod in self.pods():
            self.cluster.ok(
                "delete", "pod", pod["metadata"]["name"], "-n", NAMESPACE,
                "--grace-period=0", "--force", "--wait=false",
            )  # fmt: skip
