"""What others delete, edit, take or forbid."""

from __future__ import annotations

from typing import Any

import pytest

from tests.operator.integration.api import Api, eventually
from tests.operator.integration.deployment import Deployment
from tests.operator.integration.kubelet import Kubelet
from tests.operator.integration.process import OperatorProcess


@pytest.mark.parametrize("plural", ["services", "poddisruptionbudgets"])
def test_what_is_deleted_comes_back(
    operator: OperatorProcess, api: Api, chat: Deployment, plural: str
) -> None:
    chat.bring_up(replicas=0)
    found = api.get(plural, "chat")
    assert found is not None

    api.delete(plural, "chat")

    def another() -> bool:
        present = api.get(plural, "chat")
        return present is not None and present["metadata"]["uid"] != found["metadata"]["uid"]

    eventually(another)


def test_what_is_edited_comes_back_and_what_is_added_stays(
    operator: OperatorProcess, api: Api, chat: Deployment
) -> None:
    chat.bring_up(replicas=1, podLabels={"team": "search"})
    uids = chat.uids()

    api.patch("services", "chat", {"metadata": {"annotations": {"someone": "else"}}})
    # Someone moves our port, and a mesh adds its own.
    mesh = {"name": "mesh", "port": 15090, "protocol": "TCP", "targetPort": 15090}
    moved = {"name": "http", "port": 8000, "protocol": "TCP", "targetPort": "http"}
    selector = {"llama-operator.dev/deployment": "chat", "version": "other"}
    api.patch("services", "chat", {"spec": {"ports": [moved, mesh], "selector": selector}})
    swapped = {"maxUnavailable": None, "minAvailable": 1}
    api.patch("poddisruptionbudgets", "chat", {"spec": swapped})
    labels = {"team": "other", "llama-operator.dev/deployment": "no", "added": "yes"}
    restarted = {"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}
    api.patch("pods", "chat-0", {"metadata": {"labels": labels, "annotations": restarted}})
    api.patch("llamadeployments", "chat", {"metadata": {"annotations": restarted}})

    def mended() -> bool:
        service, budget = api.get("services", "chat"), api.get("poddisruptionbudgets", "chat")
        pod = api.get("pods", "chat-0")
        assert service is not None
        assert budget is not None
        assert pod is not None
        found = pod["metadata"]["labels"]
        return bool(
            service["spec"]["selector"] == {"llama-operator.dev/deployment": "chat"}
            and [port["port"] for port in service["spec"]["ports"]] == [80, 15090]
            and budget["spec"].get("maxUnavailable") == 1
            and "minAvailable" not in budget["spec"]
            and found.items() >= {"team": "search", "llama-operator.dev/deployment": "chat"}.items()
        )

    eventually(mended)
    eventually(chat.settled)
    service, pod = api.get("services", "chat"), api.get("pods", "chat-0")
    assert service is not None
    assert pod is not None
    assert service["metadata"]["annotations"] == {"someone": "else"}
    assert service["spec"]["ports"][1] == mesh
    assert pod["metadata"]["labels"]["added"] == "yes"
    assert pod["metadata"]["annotations"].items() >= restarted.items()
    assert chat.read()["metadata"]["annotations"] == restarted
    assert chat.uids() == uids


def test_what_others_add_to_the_status_stays_and_costs_nothing(
    operator: OperatorProcess, api: Api, chat: Deployment
) -> None:
    operator.kill()
    operator.start(resync_seconds=1)
    operator.wait_ready()
    chat.bring_up(replicas=0)
    foreign = {
        "type": "Approved",
        "status": "True",
        "reason": "ByHand",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    conditions = [*chat.status["conditions"], foreign]
    api.patch("llamadeployments", "chat", {"status": {"conditions": conditions}}, "status")

    writes, resyncs = operator.writes(), operator.resyncs()
    eventually(lambda: operator.resyncs() >= resyncs + 3)

    assert operator.writes() == writes
    assert chat.condition("Approved") == ("True", "ByHand")


def test_a_deleted_pod_comes_back(operator: OperatorProcess, api: Api, chat: Deployment) -> None:
    chat.bring_up(replicas=1)
    before = chat.uids()["chat-0"]

    api.delete("pods", "chat-0")

    eventually(lambda: chat.uids().get("chat-0", before) != before)


def test_a_pod_gets_its_labels_back_even_where_the_watch_lost_sight_of_it(
    operator: OperatorProcess, api: Api, chat: Deployment
) -> None:
    chat.bring_up(replicas=1)
    before = chat.uids()
    label = "app.kubernetes.io/managed-by"

    api.patch("pods", "chat-0", {"metadata": {"labels": {label: None}}})

    eventually(lambda: label in chat.pods()[0]["metadata"]["labels"])
    eventually(chat.settled)
    assert chat.uids() == before


FOREIGN: dict[str, dict[str, Any]] = {
    "services": {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 1234}]}},
    "poddisruptionbudgets": {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}},
    },
    "pods": {
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": {
            "containers": [{"name": "theirs", "image": "theirs:1"}],
            "schedulerName": "nobody",
        },
    },
}


@pytest.mark.parametrize("plural", FOREIGN)
def test_what_is_someone_elses_is_never_touched(
    operator: OperatorProcess, api: Api, chat: Deployment, kubelet: Kubelet, plural: str
) -> None:
    name = "chat-0" if plural == "pods" else "chat"
    theirs = api.create(plural, {**FOREIGN[plural], "metadata": {"name": name}})
    chat.create(replicas=1)

    eventually(lambda: chat.condition("Stalled") == ("True", "NameTaken"))
    assert name in chat.message("Stalled")
    found = api.get(plural, name)
    assert found is not None
    assert found["spec"] == theirs["spec"]
    assert "ownerReferences" not in found["metadata"]
    assert "labels" not in found["metadata"]

    api.delete(plural, name)

    def ours() -> bool:
        present = api.get(plural, name)
        return present is not None and "ownerReferences" in present["metadata"]

    eventually(ours)
    kubelet.ready("chat-0")
    eventually(chat.settled)


def test_a_quota_is_told_and_waited_for(
    operator: OperatorProcess, api: Api, chat: Deployment, kubelet: Kubelet
) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}}
    api.create("resourcequotas", {**quota, "spec": {"hard": {"pods": "1"}}})
    eventually(lambda: (api.get("resourcequotas", "q") or {}).get("status", {}).get("hard"))
    chat.create(replicas=2)

    eventually(lambda: chat.condition("Ready") == ("False", "QuotaExceeded"))
    assert "Raise the quota" in chat.message("Ready")
    assert chat.names() == ["chat-0"]
    assert chat.retry(1)["reason"] == "QuotaExceeded"

    api.delete("resourcequotas", "q")
    eventually(lambda: chat.names() == ["chat-0", "chat-1"])
    for name in chat.names():
        kubelet.ready(name)
    eventually(chat.settled)


def test_a_refused_pod_is_tried_again_away_from_the_node_and_the_count_survives(
    operator: OperatorProcess, api: Api, chat: Deployment, kubelet: Kubelet
) -> None:
    chat.create(replicas=1)
    first = eventually(lambda: chat.uids().get("chat-0"))
    kubelet.refuse("chat-0")
    eventually(lambda: chat.retry(0).get("count") == 1)
    assert chat.condition("Ready") == ("False", "TopologyAffinityError")
    assert chat.names() == ["chat-0"]
    operator.kill()

    operator.start()
    second = eventually(lambda: next((uid for uid in chat.uids().values() if uid != first), None))
    assert chat.pods()[0]["metadata"]["annotations"]["llama-operator.dev/attempt"] == "1"
    kubelet.refuse("chat-0")
    eventually(lambda: chat.retry(0).get("count") == 2)
    assert chat.events().count("TopologyAffinityError") == 2
    assert chat.uids() == {"chat-0": second}
