"""What is said of refusals from the first to the last node."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llama_operator.decide import previous_status
from llama_operator.pods import read_pod
from llama_operator.refusals import nothing_else
from llama_operator.status.changes import events
from llama_operator.status.conditions import find
from tests.operator.objects import (
    NOW,
    a_pod,
    a_resource,
    misaligned,
    ready,
    running,
    time_text,
    unschedulable,
)
from tests.operator.world import World

AFFINITY = "node(s) didn't match Pod's node affinity/selector"


def says(world: World, kind: str) -> tuple[str, str]:
    found = find(previous_status(world.resource).conditions, kind)
    return (found.status, found.reason) if found is not None else ("", "")


def message(world: World, kind: str) -> str:
    found = find(previous_status(world.resource).conditions, kind)
    return found.message if found is not None else ""


def row(world: World) -> dict[str, Any]:
    found: dict[str, Any] = world.resource["status"]["pods"][0]
    return found


@pytest.mark.parametrize(
    ("said", "lasting"),
    [
        (f"0/2 nodes are available: 2 {AFFINITY}.", True),
        (f"0/2 nodes are available: 2 {AFFINITY}. preemption: 0/2 nodes are available: 2 "
         "Preemption is not helpful for scheduling.", True),
        (f"0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 {AFFINITY}.", True),
        (f"0/3 nodes are available: 1 node(s) had untolerated taint {{gpu: only}}, 2 {AFFINITY}.",
         True),
        ("0/3 nodes are available: 1 node(s) had untolerated taint "
         f"{{node.kubernetes.io/not-ready: }}, 2 {AFFINITY}.", False),
        (f"0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 {AFFINITY}.", False),
        (f"0/2 nodes are available: 1 node(s) were unschedulable, 1 {AFFINITY}.", False),
        (f"0/2 nodes are available: 2 {AFFINITY}. no new claims to deallocate, preemption: "
         "0/2 nodes are available: 2 Preemption is not helpful for scheduling.", True),
        ("no nodes available to schedule pods", False),
        ("", False),
    ],
)  # fmt: skip
def test_only_what_stays_leaves_no_node(said: str, lasting: bool) -> None:
    pod = read_pod("chat", unschedulable(a_pod(a_resource(), 0), said))

    assert pod is not None
    assert nothing_else(pod) is lasting


def test_a_misaligned_pod_is_told_then_freed_then_tried_elsewhere() -> None:
    world = World(a_resource(numa={"policy": "Required"}))
    world.step()
    world.pods["chat-0"] = misaligned(world.pods["chat-0"], at=world.now)

    world.step()

    assert "deletionTimestamp" not in world.pods["chat-0"]["metadata"], "it went untold"
    assert row(world)["numaVerdict"] == "CpusSpanNodes"
    assert row(world)["retry"]["count"] == 1
    assert row(world)["retry"]["reason"] == "NUMANotAligned"
    assert [node["name"] for node in row(world)["retry"]["avoidedNodes"]] == ["node-a"]
    assert says(world, "NUMAAligned") == ("False", "CpusSpanNodes")
    assert "cpuManagerPolicy: static" in message(world, "NUMAAligned")
    assert says(world, "Ready") == ("False", "NUMANotAligned")
    assert says(world, "Stalled") == ("False", "Progressing")

    world.step()
    assert "deletionTimestamp" in world.pods["chat-0"]["metadata"]
    # Its container had started again, and the kubelet has forgotten all but the last end.
    killed = {"terminated": {"exitCode": 137, "finishedAt": time_text(world.now)}}
    world.pods["chat-0"]["status"]["containerStatuses"] = [{"name": "runtime", "state": killed}]
    world.pods["chat-0"]["status"]["phase"] = "Failed"
    world.pass_time(2)
    world.step()
    assert row(world)["retry"]["count"] == 1
    assert row(world)["numaVerdict"] == "CpusSpanNodes"
    assert says(world, "NUMAAligned") == ("False", "CpusSpanNodes")
    world.pod_gone("chat-0")
    world.pass_time(3)
    world.step()
    assert world.pods == {}
    assert row(world)["numaVerdict"] == "CpusSpanNodes"
    assert says(world, "NUMAAligned") == ("False", "CpusSpanNodes")
    assert says(world, "Ready") == ("False", "NUMANotAligned")

    world.pass_time(6)
    world.step()
    pod = world.pods["chat-0"]
    assert "node-a" in pod["metadata"]["annotations"]["llama-operator.dev/avoided-nodes"]
    assert pod["metadata"]["annotations"]["llama-operator.dev/attempt"] == "1"
    assert row(world)["numaVerdict"] == "CpusSpanNodes"
    assert says(world, "NUMAAligned") == ("False", "CpusSpanNodes")

    world.pods["chat-0"] = ready(world.pods["chat-0"], node="node-b")
    world.step()
    assert "retry" not in row(world)
    assert says(world, "Ready") == ("True", "AllReplicasReady")


def test_a_pod_that_started_again_in_place_does_not_put_off_its_retry() -> None:
    world = World(a_resource(numa={"policy": "Required"}))
    world.step()
    world.pods["chat-0"] = misaligned(world.pods["chat-0"], at=world.now)
    world.step()
    told = row(world)["retry"]
    world.pass_time(8)
    world.pods["chat-0"] = misaligned(world.pods["chat-0"], at=world.now, again=True)

    world.step()

    assert row(world)["retry"] == told


def test_each_change_is_one_event() -> None:
    world = World(a_resource(numa={"policy": "Required"}))
    world.step()
    heard: list[str] = []

    def step() -> None:
        before = previous_status(world.resource)
        world.step()
        heard.extend(event.reason for event in events(before, previous_status(world.resource)))

    for node in ("node-a", "node-b"):
        world.pods["chat-0"] = misaligned(world.pods["chat-0"], node=node, at=world.now)
        step()
        step()
        world.pod_gone("chat-0")
        step()
        world.pass_time(21)
        step()
        step()

    assert heard == ["NUMANotAligned", "NUMACpusSpanNodes", "NUMANotAligned"]


def test_no_node_left_is_stalled_until_one_takes_the_pod() -> None:
    world = World(a_resource(numa={"policy": "Required"}))
    world.step()
    states = []
    for _ in range(3):
        world.pod_refused("chat-0")
        for _ in range(25):
            world.step()
            world.pass_time(10)
            pod = world.pods.get("chat-0")
            if pod is not None and world.alive("chat-0"):
                if "affinity" not in pod["spec"]:
                    break
                said = f"0/2 nodes are available: 2 {AFFINITY}."
                world.pods["chat-0"] = unschedulable(pod, said)
            states.append(says(world, "Stalled"))
        else:
            pytest.fail("it was not tried again")

    first = states.index(("True", "NoNodeLeft"))
    assert states[0] == ("False", "Progressing"), "a first refusal is no stall"
    assert set(states[first:]) == {("True", "NoNodeLeft")}, "it flapped"
    assert "node-a refused it" in message(world, "Stalled")

    world.pod_ready("chat-0")
    world.step()
    assert says(world, "Stalled") == ("False", "Settled")


def test_a_node_that_is_only_full_is_no_reason_to_stall() -> None:
    world = World(a_resource())
    world.step()
    world.pod_refused("chat-0")
    world.pass_time(11)
    world.step()
    said = f"0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 {AFFINITY}."
    world.pods["chat-0"] = unschedulable(world.pods["chat-0"], said)

    world.step()

    assert says(world, "Stalled")[0] == "False"


NODES = ("node-a", "node-b", "node-c")
FATES = ("refused", "misaligned", "full")


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 3),
    st.lists(st.sampled_from(FATES), min_size=3, max_size=3),
    st.integers(1, 40),
    st.integers(0, 30),
)
def test_ten_minutes_of_refusals_make_fewer_than_ten_pods_a_replica(
    replicas: int, fates: list[str], load_seconds: int, drain_seconds: int
) -> None:
    """Every node refuses in its way, and no pod is ever one too many."""
    world = World(a_resource(replicas=replicas, numa={"policy": "Required"}))
    fate = dict(zip(NODES, fates, strict=True))
    since: dict[str, float] = {}
    for second in range(0, 600, 2):
        world.step()
        assert len(world.pods) <= replicas
        for name in list(world.pods):
            pod = world.pods[name]
            uid = pod["metadata"]["uid"]
            if "deletionTimestamp" in pod["metadata"]:
                if second - since.setdefault(f"{uid} goes", second) >= drain_seconds:
                    world.pod_gone(name)
            elif world.alive(name):
                excluded = json.dumps(pod["spec"].get("affinity", {}))
                open_nodes = [n for n in NODES if n not in excluded and fate[n] != "full"]
                if not open_nodes:
                    world.pod_unschedulable(name)
                elif fate[open_nodes[0]] == "refused":
                    world.pod_refused(name, node=open_nodes[0])
                elif second - since.setdefault(uid, second) >= load_seconds:
                    again = "containerStatuses" in pod["status"]
                    world.pods[name] = misaligned(
                        pod, node=open_nodes[0], at=world.now, again=again
                    )
        world.pass_time(2)

    assert world.made < 10 * replicas
    assert world.now > NOW


def test_the_verdict_stands_when_the_same_node_is_tried_again() -> None:
    world = World(a_resource(numa={"policy": "Required"}))
    world.step()
    world.pods["chat-0"] = misaligned(world.pods["chat-0"], at=world.now)
    world.step()
    world.step()
    world.pod_gone("chat-0")
    for _ in range(3):
        world.pass_time(200)
        world.step()
        world.step()
    assert "affinity" not in world.pods["chat-0"]["spec"]

    world.pods["chat-0"] = running(world.pods["chat-0"])
    world.step()

    assert row(world)["numaVerdict"] == "CpusSpanNodes"
    assert says(world, "NUMAAligned") == ("False", "CpusSpanNodes")

    world.pods["chat-0"] = misaligned(world.pods["chat-0"], at=world.now)
    world.step()
    assert row(world)["retry"]["count"] == 2


def test_a_node_is_not_avoided_for_longer_than_was_said() -> None:
    world = World(a_resource(numa={"policy": "Required"}))
    world.step()
    world.pods["chat-0"] = misaligned(world.pods["chat-0"], at=world.now)
    world.step()
    world.step()
    world.pod_gone("chat-0")
    world.pass_time(3600)
    world.step()

    assert "affinity" not in world.pods["chat-0"]["spec"]
    assert world.pods["chat-0"]["metadata"]["annotations"]["llama-operator.dev/attempt"] == "1"
