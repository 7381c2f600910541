"""`decide` in any state of the world: it keeps its promises and comes to rest.

`World` asserts at every action: no pod is made twice or beyond replicas, no pod that serves
is replaced beyond maxUnavailable, nothing that goes already is deleted.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from llama_operator.decide import decide
from llama_operator.pods import read_pod
from llama_operator.status.conditions import find
from llama_operator.template_hash import template_hash
from tests.operator.objects import (
    a_pod,
    a_resource,
    failed,
    parsed,
    ready,
    running,
    time_text,
    unschedulable,
)
from tests.operator.world import World

SPECS = st.fixed_dictionaries(
    {
        "replicas": st.integers(0, 4),
        "rollout": st.fixed_dictionaries({"maxUnavailable": st.integers(1, 3)}),
        "kv": st.fixed_dictionaries({"maxSequences": st.integers(1, 3)}),
    }
)
POD_EVENTS = st.tuples(
    st.sampled_from(
        [
            "pod_ready",
            "pod_unready",
            "pod_unschedulable",
            "pod_refused",
            "pod_misaligned",
            "pod_drained",
            "pod_gone",
            "vanish",
        ]
    ),
    st.integers(0, 4),
)
EVENTS = st.one_of(
    POD_EVENTS,
    st.tuples(st.just("change"), SPECS),
    st.tuples(st.just("pass_time"), st.sampled_from([1, 15, 200, 700])),
    # The clock jumps: ahead, and back.
    st.tuples(st.just("pass_time"), st.sampled_from([86_400, -30, -3600, -86_400])),
    st.tuples(st.just("die_in_step"), st.integers(0, 4)),
    st.tuples(st.just("step"), st.none()),
    st.tuples(st.sampled_from(["lose_service", "edit_service", "edit_labels"]), st.integers(0, 4)),
)


def happen(world: World, event: tuple[str, Any]) -> None:
    what, detail = event
    if what == "step":
        world.step()
    elif what == "change":
        world.change(**detail)
    elif what == "pass_time":
        world.pass_time(detail)
    elif what == "die_in_step":
        world.die_in_step(detail)
    elif what == "lose_service":
        world.service = None
    elif what == "edit_service":
        if world.service is not None:
            world.service["spec"]["selector"] = {"wrong": "pods"}
    else:
        name = f"chat-{detail}"
        if what == "vanish":
            world.pods.pop(name, None)
        elif what == "edit_labels":
            if name in world.pods:
                world.pods[name]["metadata"]["labels"].pop("llama-operator.dev/deployment", None)
        else:
            getattr(world, what)(name)


PODS = st.dictionaries(
    st.integers(0, 5),
    st.tuples(
        st.sampled_from(["pending", "unschedulable", "running", "ready", "failed", "succeeded"]),
        st.booleans(),  # Whether it is of the present template.
        st.booleans(),  # Whether it is going.
        st.integers(0, 5),  # Refusals before it.
    ),
)
"""Pods that are there when the operator sees the world for the first time, by index."""


def any_world(spec: dict[str, Any], pods: dict[int, tuple[str, bool, bool, int]]) -> World:
    """A world in which anything may have happened before."""
    world = World(a_resource(**spec))
    old = a_resource(**spec | {"kv": {"maxSequences": 9}})
    for index, (state, current, going, attempt) in pods.items():
        pod = a_pod(world.resource if current else old, index, attempt=attempt)
        if state == "unschedulable":
            pod = unschedulable(pod)
        elif state == "running":
            pod = running(pod)
        elif state == "ready":
            pod = ready(pod)
        elif state == "failed":
            pod = failed(pod)
        elif state == "succeeded":
            pod = running(pod)
            pod["status"]["phase"] = "Succeeded"
        if going:
            pod["metadata"]["deletionTimestamp"] = time_text(world.now)
        world.put(pod)
    return world


def settle(world: World) -> None:
    """Nothing fails any more: pods that go are gone, pods that live get Ready, time passes."""
    for _ in range(60):
        decision = world.step()
        waits = decision.wake_at is not None
        if not (decision.actions or waits) and all(map(world.serves, world.pods.values())):
            return
        for name in list(world.pods):
            world.pod_gone(name)
            pod = world.pods.get(name)
            if pod is not None and not world.serves(pod):
                world.pod_ready(name)
        world.pass_time(61)


@settings(max_examples=200, deadline=None)
@given(SPECS, PODS, st.lists(EVENTS, max_size=30))
def test_it_comes_to_rest_where_it_should(
    spec: Any, pods: Any, events: list[tuple[str, Any]]
) -> None:
    world = any_world(spec, pods)
    for event in events:
        happen(world, event)

    settle(world)

    resource = parsed(world.resource)
    wanted = template_hash(resource.spec)
    assert sorted(world.pods) == [f"chat-{index}" for index in range(resource.spec.replicas)]
    for manifest in world.pods.values():
        pod = read_pod("chat", manifest)
        assert pod is not None
        assert pod.ready
        assert pod.template_hash == wanted
    decision = decide(world.observe(), world.now)
    assert decision.actions == ()
    assert decision.status is not None
    assert decision.status.to_json() == world.resource["status"]
    conditions = {item.type: item.status for item in decision.status.conditions}
    assert conditions["Ready"] == "True"
    assert conditions["Reconciling"] == "False"
    assert conditions["Stalled"] == "False"


@settings(max_examples=100, deadline=None)
@given(SPECS, PODS, st.lists(EVENTS, max_size=30))
def test_it_decides_the_same_twice_and_stops_when_nothing_changes(
    spec: Any, pods: Any, events: list[tuple[str, Any]]
) -> None:
    world = any_world(spec, pods)
    for event in events:
        happen(world, event)
        assert decide(world.observe(), world.now) == decide(world.observe(), world.now)

    for _ in range(10):
        last = world.step()

    assert last.actions == ()
    assert decide(world.observe(), world.now) == last


@settings(max_examples=50, deadline=None)
@given(SPECS, st.lists(EVENTS, max_size=40))
def test_every_status_is_one_that_kstatus_can_read(
    spec: Any, events: list[tuple[str, Any]]
) -> None:
    world = World(a_resource(**spec))
    for event in events:
        happen(world, event)
        status = decide(world.observe(), world.now).status
        assert status is not None
        assert status.observed_generation == world.resource["metadata"]["generation"]
        types = [condition.type for condition in status.conditions]
        assert len(types) == len(set(types))
        ready = find(status.conditions, "Ready")
        reconciling = find(status.conditions, "Reconciling")
        stalled = find(status.conditions, "Stalled")
        assert ready is not None
        assert reconciling is not None
        assert stalled is not None
        assert (reconciling.status, stalled.status) != ("True", "True")
        if ready.status == "False":
            assert "True" in (reconciling.status, stalled.status)


def test_ten_minutes_of_refusals_make_fewer_than_ten_pods() -> None:
    world = World(a_resource(replicas=1))
    for _ in range(60):
        world.step()
        if world.alive("chat-0"):
            affinity = world.pods["chat-0"]["spec"].get("affinity")
            world.pod_unschedulable("chat-0") if affinity else world.pod_refused("chat-0")
        assert len(world.pods) <= 1
        world.pass_time(10)

    assert 3 <= world.made < 10


def test_a_refusal_counts_on_over_a_restart_of_the_operator() -> None:
    """Nothing is in memory: the world is all there is."""
    world = World(a_resource(replicas=1))
    for count in range(1, 5):
        while not world.alive("chat-0"):
            world.step()
            world.pass_time(1)
        world.pod_refused("chat-0", node=f"node-{count}")
        world.step()

        (row,) = world.resource["status"]["pods"]
        assert row["retry"]["count"] == count
        assert row["retry"]["node"] == f"node-{count}"
        assert row["retry"]["reason"] == "TopologyAffinityError"
