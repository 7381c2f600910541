"""How an edited Service or PodDisruptionBudget gets back what we set."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from llama_operator.actions import Apply, Oust
from llama_operator.builders import build_pod_disruption_budget, build_service
from llama_operator.mending import mend
from llama_operator.names import Manifest
from tests.operator.objects import a_resource, parsed

SERVICE = build_service(parsed(a_resource()))
BUDGET = build_pod_disruption_budget(parsed(a_resource()))


def live(wanted: Manifest, **spec: Any) -> Manifest:
    found = copy.deepcopy(wanted)
    found["metadata"] |= {"uid": "u", "resourceVersion": "7"}
    found["spec"] |= spec
    return found


def a_port(name: str = "http", port: int = 80, **fields: Any) -> Manifest:
    return {"name": name, "port": port, "protocol": "TCP", "targetPort": "http", **fields}


@pytest.mark.parametrize(
    "found",
    [
        live(SERVICE, clusterIP="10.0.0.1", type="LoadBalancer"),
        live(SERVICE, ports=[a_port(nodePort=30080), a_port("mesh", 15090)]),
        live(BUDGET),
    ],
)
def test_what_others_add_needs_no_mending(found: Manifest) -> None:
    assert mend(found, SERVICE if found["kind"] == "Service" else BUDGET) is None


@pytest.mark.parametrize(
    "found",
    [
        live(SERVICE, selector={"llama-operator.dev/deployment": "chat", "version": "2"}),
        live(SERVICE, selector=None),
        live(SERVICE, ports=[a_port(targetPort=9999)]),
        live(SERVICE, ports=[a_port("web")]),
    ],
)
def test_what_apply_can_mend_is_applied(found: Manifest) -> None:
    assert mend(found, SERVICE) == Apply(SERVICE, "its fields were changed")


def test_a_port_with_another_number_is_put_back_beside_the_ports_of_others() -> None:
    mesh = a_port("mesh", 15090)
    found = live(SERVICE, ports=[a_port(port=8000, nodePort=30080, appProtocol="http"), mesh])

    assert mend(found, SERVICE) == Oust(
        SERVICE,
        {
            "metadata": {"uid": "u", "resourceVersion": "7"},
            "spec": {"ports": [a_port(nodePort=30080, appProtocol="http"), mesh]},
        },
        "its fields were changed",
    )


def test_a_port_that_took_our_number_goes() -> None:
    found = live(SERVICE, ports=[a_port(port=8000), a_port("web", 80)])

    action = mend(found, SERVICE)

    assert isinstance(action, Oust)
    assert action.patch["spec"]["ports"] == [a_port()]


def test_a_budget_that_counts_the_other_way_round_is_turned_back() -> None:
    found = live(BUDGET, minAvailable=1)
    del found["spec"]["maxUnavailable"]

    action = mend(found, BUDGET)

    assert isinstance(action, Oust)
    assert action.patch["spec"] == {"minAvailable": None, "maxUnavailable": 1}
