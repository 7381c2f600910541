"""The chart as a release: the rights it gives, its upgrade, and what an uninstall leaves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chart.conftest import CHART
from tests.cluster_fixtures import Cluster

KINDS = "deployment,service,serviceaccount,role,rolebinding,clusterrole,clusterrolebinding"


@pytest.fixture
def release(control_plane: Cluster, namespace: str) -> Iterator[str]:
    """A release named after its namespace; no CRD, which others use at the same time."""
    helm(control_plane, namespace, "install", str(CHART))
    yield namespace
    control_plane.run_helm("uninstall", namespace, "--namespace", namespace, "--ignore-not-found")


def helm(cluster: Cluster, release: str, verb: str, *arguments: str) -> None:
    result = cluster.run_helm(
        verb, release, *arguments, "--namespace", release, "--set", "crds.install=false"
    )
    assert result.returncode == 0, result.stderr


def may(
    cluster: Cluster, release: str, verb: str, resource: str, namespace: str, name: str = ""
) -> bool:
    """Whether the operator of a release may do that."""
    account = f"system:serviceaccount:{release}:{release}-llama-operator"
    kind, _, subresource = resource.partition("/")
    said = cluster.run(
        "auth", "can-i", verb, f"{kind}/{name}" if name else kind,
        f"--subresource={subresource}", "-n", namespace, f"--as={account}",
    ).stdout  # fmt: skip
    assert said.strip() in ("yes", "no"), said
    return said.strip() == "yes"


def test_gives_the_operator_what_it_needs_and_no_more(
    control_plane: Cluster, crd: None, release: str
) -> None:
    for verb, resource in (
        ("watch", "llamadeployments.llama-operator.dev"),
        ("patch", "llamadeployments.llama-operator.dev/status"),
        ("delete", "pods"),
        ("patch", "services"),
        ("create", "poddisruptionbudgets.policy"),
        ("create", "events.events.k8s.io"),
    ):
        assert may(control_plane, release, verb, resource, "default"), f"{verb} {resource}"
    for verb, resource in (
        ("get", "secrets"),
        ("list", "nodes"),
        ("patch", "llamadeployments.llama-operator.dev"),
        ("create", "pods/exec"),
        ("delete", "services"),
        ("create", "leases.coordination.k8s.io"),
    ):
        assert not may(control_plane, release, verb, resource, "default"), f"{verb} {resource}"

    for verb in ("get", "update"):
        leases, own = "leases.coordination.k8s.io", f"{release}-llama-operator"
        assert may(control_plane, release, verb, leases, release, own)
        assert not may(control_plane, release, verb, leases, release, "another")


def test_an_upgrade_to_some_namespaces_takes_the_cluster_away(
    control_plane: Cluster, crd: None, release: str
) -> None:
    helm(
        control_plane, release, "upgrade", str(CHART), "--set-json",
        f'watchNamespaces=["{release}"]',
    )  # fmt: skip

    assert may(control_plane, release, "create", "pods", release)
    assert not may(control_plane, release, "create", "pods", "default")


def test_an_uninstall_leaves_nothing(control_plane: Cluster, release: str) -> None:
    selector = f"app.kubernetes.io/instance={release}"
    assert control_plane.get(KINDS, "-n", release, "-l", selector)["items"]

    result = control_plane.run_helm("uninstall", release, "--namespace", release, "--wait")

    assert result.returncode == 0, result.stderr
    assert control_plane.get(KINDS, "-n", release, "-l", selector)["items"] == []
