"""What the chart renders, and whether the API server takes it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.chart.conftest import (
    CHART,
    DEFAULT,
    EVERYTHING,
    NAMESPACE,
    NAMESPACED,
    RELEASE,
    Render,
    as_flags,
    documents,
    only,
)
from tests.cluster_fixtures import REPOSITORY, Cluster

ALL_VALUES = pytest.mark.parametrize(
    "values", [DEFAULT, NAMESPACED, EVERYTHING], ids=["default", "namespaced", "everything"]
)


@ALL_VALUES
def test_lint_is_clean(control_plane: Cluster, values: dict[str, Any]) -> None:
    result = control_plane.run_helm("lint", "--strict", str(CHART), *as_flags(values))

    assert result.returncode == 0, result.stdout + result.stderr
    assert "WARNING" not in result.stdout


@ALL_VALUES
def test_renders_the_same_bytes_twice(
    render: Render, render_again: Render, values: dict[str, Any]
) -> None:
    assert render(values) == render_again(values)


@ALL_VALUES
def test_the_api_server_takes_every_object(
    control_plane: Cluster, render: Render, namespace: str, values: dict[str, Any]
) -> None:
    # The CRDs of the monitors are not ours to install, and the Pod of helm test needs its
    # ServiceAccount: the tests below look at them.
    wanted = [
        document
        for document in documents(render(values))
        if document["kind"] not in ("Pod", "ServiceMonitor", "PodMonitor")
    ]
    for document in wanted:
        if "namespace" in document["metadata"]:
            document["metadata"]["namespace"] = namespace

    said = control_plane.ok(
        "apply", "--dry-run=server", "--server-side", "--force-conflicts",
        "--field-manager=llama-operator-tests", "--validate=strict", "-f", "-",
        stdin=yaml.safe_dump_all(wanted),
    )  # fmt: skip

    assert said.count("serverside-applied (server dry run)") == len(wanted)


def test_applied_twice_it_changes_no_field(
    control_plane: Cluster, render: Render, namespace: str
) -> None:
    values = {**NAMESPACED, "watchNamespaces": [namespace]}
    text = yaml.safe_dump_all(
        {**document, "metadata": {**document["metadata"], "namespace": namespace}}
        for document in documents(render(values))
        if document["kind"] != "Pod"  # That of helm test is no part of a sync.
    )

    def apply() -> dict[str, Any]:
        control_plane.ok("apply", "--server-side", "-f", "-", stdin=text)
        listed = control_plane.get("-f", "-", "--show-managed-fields", stdin=text)["items"]
        return {
            f"{item['kind']}/{item['metadata']['name']}": [
                entry
                for entry in item["metadata"]["managedFields"]
                if entry["manager"] == "kubectl"
            ]
            for item in listed
        }

    before = apply()

    assert apply() == before
    assert all(before.values())


@ALL_VALUES
def test_pods_fit_the_restricted_pod_security_standard(
    control_plane: Cluster, render: Render, namespace: str, values: dict[str, Any]
) -> None:
    control_plane.ok(
        "label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted"
    )
    template = only(render(values), "Deployment")["spec"]["template"]
    pods = [template, only(render(values), "Pod")]
    for index, pod in enumerate(pods):
        pod |= {"apiVersion": "v1", "kind": "Pod"}
        pod["metadata"] |= {"name": f"pod-{index}", "namespace": namespace}
        del pod["spec"]["serviceAccountName"]  # It does not exist in this namespace.
        pod["spec"].pop("priorityClassName", None)
        for container in pod["spec"]["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True

    control_plane.ok("apply", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump_all(pods))


@ALL_VALUES
def test_rights_are_few(render: Render, values: dict[str, Any]) -> None:
    roles = [d for d in documents(render(values)) if d["kind"] in ("Role", "ClusterRole")]

    assert roles
    for rule in (rule for role in roles for rule in role["rules"]):
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
        assert not {"secrets", "pods/exec", "serviceaccounts", "nodes"} & set(rule["resources"])
        assert not {"escalate", "bind", "impersonate", "deletecollection"} & set(rule["verbs"])


def test_serves_the_whole_cluster_by_default(render: Render) -> None:
    text = render(DEFAULT)

    role = only(text, "ClusterRole")
    binding = only(text, "ClusterRoleBinding")
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    account = only(text, "ServiceAccount", f"{RELEASE}-llama-operator")
    assert binding["subjects"] == [
        {
            "kind": "ServiceAccount",
            "name": account["metadata"]["name"],
            "namespace": account["metadata"]["namespace"],
        }
    ]


def test_namespaces_get_a_role_each_and_the_cluster_none(render: Render) -> None:
    text = render(NAMESPACED)
    wide = render(DEFAULT)

    kinds = [document["kind"] for document in documents(text)]
    assert "ClusterRole" not in kinds
    assert "ClusterRoleBinding" not in kinds
    roles = [
        document
        for document in documents(text)
        if document["kind"] == "Role"
        and document["metadata"]["name"] == f"{RELEASE}-llama-operator"
    ]
    assert [role["metadata"]["namespace"] for role in roles] == ["team-a", "team-b"]
    assert all(role["rules"] == only(wide, "ClusterRole")["rules"] for role in roles)
    arguments = container(text)["args"]
    assert [a for a in arguments if a.startswith("--namespace=")] == [
        "--namespace=team-a",
        "--namespace=team-b",
    ]


def test_the_operator_knows_its_own_name(render: Render) -> None:
    # kopf asks for a user name otherwise, and the user of a restricted pod has none.
    assert container(render(DEFAULT))["env"] == [
        {"name": "POD_ID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    ]


def test_one_operator_acts_at_a_time(render: Render) -> None:
    text = render(DEFAULT)
    spec = only(text, "Deployment")["spec"]

    assert f"--lease={NAMESPACE}/{RELEASE}-llama-operator" in container(text)["args"]
    assert spec["replicas"] == 1
    assert spec["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    assert "PodDisruptionBudget" not in [document["kind"] for document in documents(text)]


def test_more_operators_are_spread_and_not_drained_together(render: Render) -> None:
    text = render(EVERYTHING)
    spec = only(text, "Deployment")["spec"]
    selector = spec["selector"]["matchLabels"]

    assert spec["replicas"] == 2
    assert spec["strategy"]["rollingUpdate"] == {"maxUnavailable": 1, "maxSurge": 1}
    (spread,) = spec["template"]["spec"]["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"] == selector
    budget = only(text, "PodDisruptionBudget")
    assert budget["spec"]["maxUnavailable"] == 1
    assert budget["spec"]["selector"]["matchLabels"] == selector


@ALL_VALUES
def test_the_lease_is_the_releases_own(render: Render, values: dict[str, Any]) -> None:
    text = render(values)
    (flag,) = (a for a in container(text)["args"] if a.startswith("--lease="))
    namespace, _, name = flag.removeprefix("--lease=").partition("/")

    role = only(text, "Role", f"{name}-lease")
    assert role["metadata"]["namespace"] == namespace == NAMESPACE
    assert {"get", "update"} == {
        verb for rule in role["rules"] if "resourceNames" in rule for verb in rule["verbs"]
    }
    for document in documents(text):
        if document["kind"] in ("Role", "ClusterRole") and document != role:
            assert not [rule for rule in document["rules"] if "leases" in rule["resources"]]


def test_the_operator_understands_its_arguments(render: Render) -> None:
    from llama_operator.settings import parse_settings

    for values in (DEFAULT, NAMESPACED, EVERYTHING):
        text = render(values)
        settings = parse_settings(container(text)["args"])
        ports = {port["name"]: port["containerPort"] for port in container(text)["ports"]}

        assert settings.namespaces == tuple(values.get("watchNamespaces", ()))
        assert settings.log_level == values.get("logLevel", "info")
        assert settings.workers == (32 if "extraArgs" in values else 16)
        assert settings.runtime_image == values.get("runtimeImage", "llama-runtime:0.1.0")
        assert ports == {"health": settings.health_port, "metrics": settings.metrics_port}


def test_every_value_arrives(render: Render) -> None:
    text = render(EVERYTHING)
    deployment = only(text, "Deployment", "the-operator")
    pod = deployment["spec"]["template"]

    assert container(text)["image"] == "registry.example/llama-operator:1"
    assert container(text)["imagePullPolicy"] == "Always"
    assert container(text)["resources"] == EVERYTHING["resources"]
    assert pod["metadata"]["labels"]["team"] == "platform"
    assert pod["metadata"]["labels"]["app.kubernetes.io/name"] == "llama-operator"
    assert pod["metadata"]["annotations"]["note"] == "x"
    assert pod["spec"]["serviceAccountName"] == "operator"
    for name in (
        "imagePullSecrets", "nodeSelector", "tolerations", "affinity", "priorityClassName"
    ):  # fmt: skip
        assert pod["spec"][name] == EVERYTHING[name]


def test_metrics_service_and_selector_find_the_operator(render: Render) -> None:
    for values in (DEFAULT, EVERYTHING):
        text = render(values)
        labels = only(text, "Deployment")["spec"]["template"]["metadata"]["labels"].items()
        service = only(text, "Service")

        assert service["spec"]["selector"].items() <= labels
        assert only(text, "Deployment")["spec"]["selector"]["matchLabels"].items() <= labels
        assert (
            not service["spec"]["selector"].items()
            <= only(text, "Pod")["metadata"]["labels"].items()
        )
        names = [port["name"] for port in container(text)["ports"]]
        assert service["spec"]["ports"][0]["targetPort"] in names


def test_monitors_only_when_asked_for(render: Render) -> None:
    assert "monitoring.coreos.com" not in render(DEFAULT)

    text = render(EVERYTHING)
    monitor = only(text, "ServiceMonitor")
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert monitor["spec"]["endpoints"] == [{"port": "metrics", "interval": "15s"}]
    assert only(text, "PodMonitor")["spec"]["namespaceSelector"] == {"any": True}


def test_the_pod_monitor_finds_what_the_operator_makes(render: Render) -> None:
    from llama_operator.api import LlamaDeployment
    from llama_operator.builders.pod import build_pod
    from tests.operator.api.manifests import MINIMAL

    resource = LlamaDeployment.from_json(MINIMAL)
    pod = build_pod(resource, 0, image="runtime")
    spec = only(render(EVERYTHING), "PodMonitor")["spec"]

    assert spec["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    ports = [port["name"] for c in pod["spec"]["containers"] for port in c["ports"]]
    assert spec["podMetricsEndpoints"][0]["port"] in ports


def test_the_crd_is_the_one_in_crds(render: Render) -> None:
    (wanted,) = documents((REPOSITORY / "crds/llamadeployments.yaml").read_text())

    found = only(render(DEFAULT), "CustomResourceDefinition")

    assert found["spec"] == wanted["spec"]
    assert found["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert "annotations" not in only(render(EVERYTHING), "CustomResourceDefinition")["metadata"]
    assert "kind: CustomResourceDefinition" not in render(NAMESPACED)


def test_everything_is_labelled_and_named_after_the_release(render: Render) -> None:
    for document in documents(render(DEFAULT)):
        labels = document["metadata"]["labels"]
        assert labels["app.kubernetes.io/instance"] == RELEASE
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        if document["kind"] != "CustomResourceDefinition":
            assert document["metadata"]["name"].startswith(f"{RELEASE}-llama-operator")
            assert document["metadata"].get("namespace", NAMESPACE) == NAMESPACE


def test_the_notes_say_what_to_do_next(control_plane: Cluster) -> None:
    result = control_plane.run_helm(
        "install", RELEASE, str(CHART), "--namespace", NAMESPACE, "--dry-run=client",
        *as_flags(NAMESPACED),
    )  # fmt: skip

    assert result.returncode == 0, result.stderr
    notes = result.stdout.split("NOTES:")[1]
    assert f"kubectl rollout status deployment/{RELEASE}-llama-operator" in notes
    assert "kubectl apply --namespace team-a" in notes
    assert "kubectl apply --server-side -f crds/" in notes


def container(text: str) -> dict[str, Any]:
    """The operator's container."""
    (found,) = only(text, "Deployment")["spec"]["template"]["spec"]["containers"]
    document: dict[str, Any] = found
    return document
