"""What Argo CD and Flux make of a resource, and that they have nothing to correct."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.cluster_fixtures import REPOSITORY, Cluster
from tests.operator.integration.api import Api, eventually
from tests.operator.integration.deployment import Deployment
from tests.operator.integration.history import History, without_repeats
from tests.operator.integration.kubelet import Kubelet
from tests.operator.integration.process import OperatorProcess

EXAMPLES = REPOSITORY / "examples"
AS_ARGOCD = {"InProgress": "Progressing", "Current": "Healthy", "Failed": "Degraded"}


def test_a_whole_life_reads_the_same_everywhere(
    operator: OperatorProcess, api: Api, chat: Deployment, kubelet: Kubelet
) -> None:
    history = History(api)

    operator.kill()
    chat.create(replicas=1)
    assert chat.read()["status"] == {"observedGeneration": -1}
    operator.start()
    kubelet.ready(chat.wait_for_pod("chat-0"))
    eventually(chat.settled)
    history.catch_up()
    assert without_repeats(history.kstatus()) == ["InProgress", "Current"]

    first = chat.uids()["chat-0"]
    chat.change(image="llama-runtime:nonsense")
    eventually(lambda: chat.uids().get("chat-0", first) != first)
    kubelet.cannot_pull("chat-0")
    eventually(lambda: chat.condition("Stalled")[0] == "True")
    history.catch_up()
    assert without_repeats(history.kstatus())[2:] == ["InProgress", "Failed"]

    second = chat.uids()["chat-0"]
    chat.change(image=None)
    eventually(lambda: chat.uids().get("chat-0", second) != second)
    kubelet.ready("chat-0")
    eventually(chat.settled)
    chat.change(replicas=0)
    eventually(lambda: chat.settled() and chat.names() == [])
    history.catch_up()
    found = without_repeats(history.kstatus())[4:]
    assert found[0] == "InProgress"
    assert found[-1] == "Current"
    assert "Failed" not in found

    kstatus = history.kstatus()
    assert history.argocd() == [AS_ARGOCD[word] for word in kstatus]
    assert all("finalizers" not in manifest["metadata"] for manifest in history.manifests)


WAYS = pytest.mark.parametrize("way", [["--server-side"], []], ids=["server-side", "client-side"])


@WAYS
def test_what_is_applied_again_changes_nothing(
    operator: OperatorProcess,
    control_plane: Cluster,
    api: Api,
    chat: Deployment,
    way: list[str],
) -> None:
    examples = [yaml.safe_load(path.read_text()) for path in sorted(EXAMPLES.glob("*.yaml"))]
    for example in examples:
        example["spec"]["schedulerName"] = "nobody"
    text = yaml.safe_dump_all(examples)
    before = apply(control_plane, api, way, text)
    eventually(lambda: all(map(seen, api.list("llamadeployments"))))

    after = apply(control_plane, api, way, text)

    assert len(after) == len(examples)
    assert after == before
    namespace = ("-n", api.namespace)
    # A status that is written in between is a difference, too.
    eventually(
        lambda: control_plane.run("diff", *namespace, *way, "-f", "-", stdin=text).returncode == 0
    )
    for manifest in api.list("llamadeployments"):
        fields = manifest["metadata"]["managedFields"]
        ours = [entry for entry in fields if entry["manager"] == "llama-operator"]
        assert {entry["subresource"] for entry in ours} == {"status"}


def seen(manifest: dict[str, Any]) -> bool:
    """Whether the operator has written the status of this generation."""
    generation: int = manifest["metadata"]["generation"]
    return bool(manifest["status"]["observedGeneration"] == generation)


def apply(cluster: Cluster, api: Api, way: list[str], text: str) -> list[Any]:
    """Apply the objects; what each is then and who has which of its fields, the operator apart."""
    cluster.ok("apply", "-n", api.namespace, *way, "-f", "-", stdin=text)
    return [
        (
            manifest["metadata"]["generation"],
            manifest["metadata"].get("annotations"),
            manifest["spec"],
            [
                entry
                for entry in manifest["metadata"]["managedFields"]
                if entry["manager"] != "llama-operator"
            ],
        )
        for manifest in api.list("llamadeployments")
    ]


@WAYS
def test_an_apply_without_replicas_leaves_an_autoscalers_alone(
    operator: OperatorProcess,
    control_plane: Cluster,
    api: Api,
    chat: Deployment,
    way: list[str],
) -> None:
    manifest = yaml.safe_load((REPOSITORY / "examples/minimal.yaml").read_text())
    manifest["metadata"] |= {"name": "chat", "namespace": api.namespace}
    manifest["spec"]["schedulerName"] = "nobody"

    apply(control_plane, api, way, yaml.safe_dump(manifest))
    assert chat.read()["spec"]["replicas"] == 1
    scale = "llamadeployments/chat"
    control_plane.ok("scale", "-n", api.namespace, scale, "--replicas=3")
    eventually(lambda: len(chat.pods()) == 3)

    manifest["spec"]["podAnnotations"] = {"note": "a change"}
    apply(control_plane, api, way, yaml.safe_dump(manifest))

    eventually(lambda: chat.status and len(chat.pods()) == 3)
    assert chat.read()["spec"]["replicas"] == 3
