"""Restarts in any order of events: the world asserts at every action, and it comes to rest.

`RestartWorld` asserts that a pod is asked or evicted only while every other serves, inside an
open window, not while held, and at most once in a run; `World` that a rollout stays within its
budget.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llama_operator.decide import decide
from tests.operator.objects import a_resource
from tests.operator.restart.simulator import BY_HAND, HOLD, RestartWorld

RESTARTS = st.fixed_dictionaries(
    {
        "schedule": st.sampled_from(["0 * * * *", "*/20 * * * *", "30 12 * * *"]),
        "window": st.sampled_from(["5m", "15m", "2h"]),
        "jitter": st.sampled_from(["0s", "7m"]),
        "when": st.sampled_from(["Always", "Fragmented"]),
        "method": st.sampled_from(["Auto", "Compact", "Container", "Pod"]),
        "minUptime": st.sampled_from(["0s", "10m", "5h"]),
    }
)
EVENTS = st.one_of(
    st.tuples(st.just("look"), st.none()),
    st.tuples(st.just("kill"), st.integers(0, 4)),
    st.tuples(st.just("tick"), st.sampled_from([0, 1, 15, 60])),
    st.tuples(st.just("wait"), st.sampled_from([300, 1200, 4000])),
    st.tuples(st.just("span"), st.tuples(st.integers(0, 2), st.sampled_from([0.0, 0.5]))),
    st.tuples(st.just("edit"), RESTARTS),
    st.tuples(st.just("spec"), st.integers(1, 3)),
    st.tuples(st.just("scale"), st.integers(0, 3)),
    st.tuples(st.just("policy"), st.sampled_from(["Immediate", "Window"])),
    st.tuples(st.just("hand"), st.sampled_from([None, "now", "again"])),
    st.tuples(st.just("hold"), st.sampled_from([None, "true"])),
    st.tuples(st.just("suspend"), st.booleans()),
    st.tuples(st.just("forbid"), st.booleans()),
    st.tuples(st.just("slot"), st.booleans()),
    st.tuples(st.just("break"), st.integers(0, 2)),
    st.tuples(st.just("mend"), st.none()),
    st.tuples(st.just("vanish"), st.integers(0, 2)),
)


def happen(world: RestartWorld, event: tuple[str, Any]) -> None:
    what, detail = event
    if what == "look":
        world.look()
    elif what == "kill":
        world.look_and_die(detail)
    elif what == "tick":
        world.tick(detail)
    elif what == "wait":
        world.pass_by(detail, step=30)
    elif what == "span":
        world.spans[f"chat-{detail[0]}"] = detail[1]
    elif what == "edit":
        world.change(restart=detail)
    elif what == "spec":
        world.change(kv={"maxSequences": detail})
    elif what == "scale":
        world.change(replicas=detail)
    elif what == "policy":
        world.change(rollout={"drainTimeout": "1m", "updatePolicy": detail})
    elif what == "hand":
        world.annotate(BY_HAND, detail)
    elif what == "hold":
        world.annotate(HOLD, detail)
    elif what == "suspend":
        world.change(restart={**world.spec["restart"], "suspend": detail})
    elif what == "forbid":
        world.budget_forbids = detail
    elif what == "slot":
        world.slot_free = detail
    elif what == "mend":
        world.silent.clear()
    else:
        name = f"chat-{detail}"
        if what == "vanish":
            world.pods.pop(name, None)
        elif name in world.pods and world.serves(world.pods[name]):
            world.silent.add(name)
            world._set_ready(world.pods[name], "False")


@settings(max_examples=60, deadline=None)
@given(RESTARTS, st.lists(EVENTS, min_size=5, max_size=40))
def test_it_keeps_its_promises_and_comes_to_rest(restart: Any, events: list[Any]) -> None:
    world = RestartWorld(a_resource(replicas=3, restart=restart, rollout={"drainTimeout": "1m"}))
    world.bring_up()
    for event in events:
        happen(world, event)

    world.silent.clear()
    world.budget_forbids = False
    world.slot_free = True
    world.annotate(HOLD, None)
    world.change(restart={"schedule": "0 0 1 1 *"})
    world.pass_by(3 * 3600, step=300)

    assert world.unavailable() == 0
    assert world.run.get("state") != "Running"
    assert not any(entry["state"] == "Asked" for entry in world.run.get("pods", []))
    for pod in world.pods.values():
        assert "llama-operator.dev/request" not in pod["metadata"]["annotations"]
    assert decide(world.observe(), world.now).actions == ()


@settings(max_examples=30, deadline=None)
@given(RESTARTS, st.lists(EVENTS, max_size=30))
def test_it_decides_the_same_twice(restart: Any, events: list[Any]) -> None:
    world = RestartWorld(a_resource(replicas=3, restart=restart, rollout={"drainTimeout": "1m"}))
    world.bring_up()
    for event in events:
        happen(world, event)
        assert decide(world.observe(), world.now) == decide(world.observe(), world.now)


@pytest.mark.parametrize("method", ["Compact", "Container", "Pod"])
@settings(max_examples=15, deadline=None)
@given(kills=st.lists(st.integers(0, 3), max_size=30))
def test_killed_at_any_write_every_pod_is_restarted_once(method: str, kills: list[int]) -> None:
    """State is only in the status and on the pods: nothing is lost and nothing done twice."""
    restart = {"schedule": "0 13 * * *", "window": "2h", "minUptime": "0s", "method": method}
    world = RestartWorld(a_resource(replicas=3, restart=restart, rollout={"drainTimeout": "1m"}))
    world.bring_up()
    world.pass_by(3600, step=300)
    for writes in kills:
        world.look_and_die(writes)
        world.tick(15)
    world.pass_by(1800)

    runs = {name: len(found) for name, found in world.restarted.items()}
    assert runs == {"chat-0": 1, "chat-1": 1, "chat-2": 1}
    assert world.run["state"] == "Complete"
    assert world.unavailable() == 0


@settings(max_examples=15, deadline=None)
@given(RESTARTS)
def test_next_time_changes_once_a_window_and_nothing_is_written_at_rest(restart: Any) -> None:
    """With nothing to restart, a window costs the status a few writes and no more."""
    quiet = {**restart, "when": "Fragmented"}
    world = RestartWorld(a_resource(replicas=2, restart=quiet, rollout={"drainTimeout": "1m"}))
    world.bring_up()
    world.pass_by(600)
    before, times = world.statuses, set()
    for _ in range(12):
        world.pass_by(600, step=60)
        times.add(world.restart_status["nextTime"])

    assert world.restarted == {}
    assert world.statuses - before <= 3 * len(times)
