from __future__ import annotations

from llama_operator.builders import build_pod, build_pod_disruption_budget, build_service
from tests.operator.objects import IMAGE, a_resource, parsed

RESOURCE = parsed(a_resource(name="chat"))
LABELS = build_pod(RESOURCE, 0, image=IMAGE)["metadata"]["labels"]


def test_the_service_leads_port_80_to_the_api_of_the_pods() -> None:
    service = build_service(RESOURCE)

    assert service["metadata"]["name"] == "chat"
    assert service["spec"]["selector"].items() <= LABELS.items()
    assert service["spec"]["ports"] == [
        {"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http"}
    ]


def test_the_disruption_budget_lets_one_pod_go_and_every_broken_one() -> None:
    budget = build_pod_disruption_budget(RESOURCE)

    assert budget["metadata"]["name"] == "chat"
    assert budget["spec"]["selector"]["matchLabels"].items() <= LABELS.items()
    assert budget["spec"]["maxUnavailable"] == 1
    assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_no_label_of_the_resource_is_copied() -> None:
    manifest = a_resource()
    manifest["metadata"]["labels"] = {"app.kubernetes.io/instance": "tracked"}

    for owned in (
        build_service(parsed(manifest)),
        build_pod_disruption_budget(parsed(manifest)),
        build_pod(parsed(manifest), 0, image=IMAGE),
    ):
        assert "app.kubernetes.io/instance" not in owned["metadata"]["labels"]
