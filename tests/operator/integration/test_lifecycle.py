"""From apply to delete."""

from __future__ import annotations

from llama_operator.api import API_VERSION, KIND
from tests.operator.integration.api import Api, eventually
from tests.operator.integration.deployment import Deployment
from tests.operator.integration.kubelet import Kubelet
from tests.operator.integration.process import OperatorProcess


def test_a_resource_gets_its_pods_and_says_when_they_serve(
    operator: OperatorProcess, api: Api, chat: Deployment, kubelet: Kubelet
) -> None:
    chat.create(replicas=2)

    eventually(lambda: chat.condition("Ready")[0] == "False")
    assert chat.condition("Stalled")[0] == "False"
    assert chat.condition("Reconciling")[0] == "True"
    assert chat.owned() == [
        "pods/chat-0",
        "pods/chat-1",
        "services/chat",
        "poddisruptionbudgets/chat",
    ]
    for name in ("chat-0", "chat-1"):
        kubelet.ready(name)
    eventually(chat.settled)
    status = chat.status
    assert status["ready"] == "2/2"
    assert status["runtimeImage"] == "llama-runtime:1"
    scale = api.get("llamadeployments", "chat/scale")
    assert scale is not None
    assert scale["status"] == {"replicas": 2, "selector": "llama-operator.dev/deployment=chat"}
    assert operator.health() == 200
    metadata = chat.read()["metadata"]
    assert "finalizers" not in metadata
    assert not [name for name in metadata.get("annotations", {}) if "kopf" in name]


def test_it_costs_few_requests(operator: OperatorProcess, chat: Deployment) -> None:
    before = operator.requests()

    chat.bring_up(replicas=1)

    service, budget, pod, event, statuses = 1, 1, 1, 1, 3
    assert operator.requests() - before <= service + budget + pod + event + statuses


def test_scaling_up_down_and_to_nothing(
    operator: OperatorProcess, api: Api, chat: Deployment, kubelet: Kubelet
) -> None:
    chat.bring_up(replicas=1)
    before = chat.uids()

    api.patch("llamadeployments", "chat", {"spec": {"replicas": 3}}, "scale")
    for name in ("chat-1", "chat-2"):
        kubelet.ready(chat.wait_for_pod(name))
    eventually(chat.settled)
    assert chat.status["ready"] == "3/3"

    chat.change(replicas=1)
    eventually(lambda: chat.settled() and chat.names() == ["chat-0"])
    assert chat.uids() == before

    chat.change(replicas=0)
    eventually(lambda: chat.settled() and chat.names() == [])
    assert chat.condition("Ready") == ("True", "ScaledToZero")
    assert api.get("services", "chat") is not None


def test_an_autoscaler_scales_it_and_is_left_alone(
    operator: OperatorProcess, api: Api, chat: Deployment, kubelet: Kubelet
) -> None:
    """The controller manager's own: below its minimum it needs no metrics."""
    chat.bring_up(replicas=1)
    scaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "chat"},
        "spec": {
            "scaleTargetRef": {"apiVersion": API_VERSION, "kind": KIND, "name": "chat"},
            "minReplicas": 2,
            "maxReplicas": 3,
        },
    }
    api.create("horizontalpodautoscalers", scaler)

    kubelet.ready(chat.wait_for_pod("chat-1"))
    eventually(chat.settled)

    assert chat.read()["spec"]["replicas"] == 2
    assert chat.status["ready"] == "2/2"


def test_deleting_it_leaves_nothing(operator: OperatorProcess, chat: Deployment) -> None:
    chat.bring_up(replicas=2)

    chat.delete()

    eventually(lambda: chat.owned() == [])


def test_deleting_it_needs_no_operator(operator: OperatorProcess, chat: Deployment) -> None:
    chat.bring_up(replicas=1)
    assert operator.stop() == 0

    chat.delete()

    eventually(lambda: chat.owned() == [])


def test_another_of_the_same_name_takes_its_place(
    operator: OperatorProcess, api: Api, chat: Deployment, kubelet: Kubelet
) -> None:
    chat.bring_up(replicas=1)
    before = chat.uids()["chat-0"]

    chat.delete()
    chat.create(replicas=1)

    eventually(lambda: chat.uids().get("chat-0", before) != before)
    kubelet.ready("chat-0")
    eventually(chat.settled)


def test_at_rest_nothing_is_written(operator: OperatorProcess, chat: Deployment) -> None:
    operator.kill()
    operator.start(resync_seconds=1)
    operator.wait_ready()
    chat.bring_up(replicas=2)
    written, writes = chat.written(), operator.writes()
    resyncs = operator.metrics()["llama_operator_resyncs_total"]

    eventually(lambda: operator.metrics()["llama_operator_resyncs_total"] >= resyncs + 5)

    assert operator.writes() == writes
    assert chat.written() == written


def test_a_restarted_operator_writes_nothing(operator: OperatorProcess, chat: Deployment) -> None:
    chat.bring_up(replicas=2)
    written = chat.written()
    operator.kill()

    operator.start(resync_seconds=1)
    operator.wait_ready()
    eventually(lambda: operator.metrics()["llama_operator_resyncs_total"] >= 2)

    assert operator.metrics()["llama_operator_llamadeployments"] == 1
    assert operator.writes() == 0
    assert chat.written() == written
