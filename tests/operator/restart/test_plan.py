"""The restarts of whole runs, in a small world."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from llama_operator.api import LlamaDeploymentStatus
from llama_operator.restart.telling import restart_events
from tests.operator.objects import NOW, a_resource, time_text
from tests.operator.restart.simulator import BY_HAND, HOLD, RestartWorld

NIGHTLY = {"schedule": "0 3 * * *", "window": "2h", "minUptime": "1h"}
UNTIL_THREE = 15 * 3600  # NOW is noon.
PODS = ["chat-0", "chat-1", "chat-2"]


def a_world(replicas: int = 3, **restart: Any) -> RestartWorld:
    world = RestartWorld(
        a_resource(
            replicas=replicas,
            restart={**NIGHTLY, **restart},
            rollout={"drainTimeout": "1m"},
        )
    )
    world.bring_up()
    return world


def to_the_window(world: RestartWorld) -> None:
    """The hours until three o'clock, and the first minute of the window."""
    world.pass_by(UNTIL_THREE - 1800 - (world.now - NOW).total_seconds(), step=600)
    world.now = NOW + timedelta(seconds=UNTIL_THREE + 60)
    world.look()


def condition(world: RestartWorld, kind: str) -> tuple[str, str]:
    for item in world.resource["status"]["conditions"]:
        if item["type"] == kind:
            return item["status"], item["reason"]
    return "", ""


def event_free(world: RestartWorld) -> None:
    """At rest nothing is written."""
    before = world.statuses
    world.pass_by(600, step=60)
    assert world.statuses == before


def test_a_window_restarts_every_pod_once_in_its_container() -> None:
    world = a_world()
    assert world.restart_status["nextTime"] == "2026-06-02T03:00:00Z"
    uids = {name: pod["metadata"]["uid"] for name, pod in world.pods.items()}

    to_the_window(world)
    world.pass_by(1800)

    assert {name: len(runs) for name, runs in world.restarted.items()} == dict.fromkeys(PODS, 1)
    assert {name: pod["metadata"]["uid"] for name, pod in world.pods.items()} == uids
    status = world.restart_status
    assert status["run"]["state"] == "Complete"
    assert status["nextTime"] == "2026-06-03T03:00:00Z"
    assert status["lastScheduleTime"] == "2026-06-02T03:00:00Z"
    assert status["skipped"] == 0
    assert "lastCompletionTime" in status
    last = world.row("chat-2")["lastRestart"]
    assert (last["method"], last["reason"]) == ("Container", "Scheduled")
    assert last["downtimeSeconds"] > 0
    assert "gained nothing" in last["message"]
    assert "Fragmented" in status["message"]
    assert all(
        "llama-operator.dev/request" not in pod["metadata"]["annotations"]
        for pod in world.pods.values()
    )
    event_free(world)


def test_pods_that_have_no_volume_for_requests_are_replaced_and_it_is_said() -> None:
    world = a_world()
    for pod in world.pods.values():
        volumes = pod["spec"]["volumes"]
        pod["spec"]["volumes"] = [item for item in volumes if item["name"] != "request"]

    to_the_window(world)
    world.pass_by(1800)

    last = world.row("chat-0")["lastRestart"]
    assert last["method"] == "Pod"
    assert "so the pod is replaced" in last["message"]
    assert {name: len(runs) for name, runs in world.restarted.items()} == dict.fromkeys(PODS, 1)


def test_compact_by_name_is_not_possible_for_such_pods() -> None:
    world = a_world(method="Compact")
    for pod in world.pods.values():
        pod["spec"]["volumes"] = []

    to_the_window(world)
    world.pass_by(600)

    assert world.restarted == {}
    assert "Compact is not possible" in world.restart_status["message"]
    assert world.run["state"] == "Complete"


@pytest.mark.parametrize("method", ["Compact", "Container", "Pod"])
def test_each_method_by_name(method: str) -> None:
    world = a_world(method=method)
    world.spans = {"chat-1": 0.6}
    uids = {name: pod["metadata"]["uid"] for name, pod in world.pods.items()}

    to_the_window(world)
    world.pass_by(1800)

    assert {name: len(runs) for name, runs in world.restarted.items()} == dict.fromkeys(PODS, 1)
    last = world.row("chat-1")["lastRestart"]
    assert last["method"] == method
    if method != "Pod":
        assert last["before"]["spanRatio"] == 0.6
        assert last["after"]["spanRatio"] == 0.0
        assert "It gained something" in last["message"]
    assert (last["downtimeSeconds"] == 0) == (method == "Compact")
    same = {name: pod["metadata"]["uid"] for name, pod in world.pods.items()} == uids
    assert same == (method != "Pod")


def test_fragmented_restarts_only_the_pod_that_is() -> None:
    world = a_world(when="Fragmented")
    world.spans = {"chat-1": 0.6}

    to_the_window(world)
    world.pass_by(1800)

    assert list(world.restarted) == ["chat-1"]
    last = world.row("chat-1")["lastRestart"]
    assert (last["method"], last["reason"]) == ("Compact", "SpanRatio")
    assert "0.60 (threshold 0.30)" in last["message"]
    assert "under every threshold" in world.restart_status["message"]
    assert world.run["state"] == "Complete"


def test_a_schedule_that_is_edited_after_its_slot_waits_for_the_next() -> None:
    world = a_world()
    to_the_window(world)
    world.pass_by(1800)
    world.restarted.clear()

    for schedule in ("5 3 * * *", "0 3 * * *", "*/20 3 2 6 *"):
        world.change(restart={**NIGHTLY, "schedule": schedule, "minUptime": "0s"})
        world.look()

    assert world.restarted == {}


def test_missed_windows_do_not_pile_up() -> None:
    world = a_world()

    world.pass_time(5 * 86400)
    world.pass_by(600)

    assert world.restarted == {}
    assert world.restart_status["nextTime"] == "2026-06-07T03:00:00Z"


def test_an_operator_that_comes_back_in_the_window_uses_the_rest_of_it() -> None:
    world = a_world()

    world.pass_time(UNTIL_THREE - 3600 + 3600 + 1800)
    world.pass_by(1800)

    assert sorted(world.restarted) == PODS


def test_outside_the_window_nothing_starts_and_what_runs_finishes() -> None:
    world = a_world(window="3m")
    to_the_window(world)
    world.look()
    assert list(world.restarted) == ["chat-2"]

    world.tick(200)
    world.pass_by(600)

    assert list(world.restarted) == ["chat-2"]
    assert world.unavailable() == 0
    assert world.run["state"] == "Closed"
    assert world.restart_status["skipped"] == 2
    assert "Not reached: chat-0, chat-1" in world.restart_status["message"]
    assert world.row("chat-2")["lastRestart"]["downtimeSeconds"] > 0
    event_free(world)


@pytest.mark.parametrize("how", ["suspend", "annotation"])
def test_a_hold_holds_and_lifting_it_goes_on(how: str) -> None:
    world = a_world()
    if how == "suspend":
        world.change(restart={**NIGHTLY, "suspend": True})
    else:
        world.annotate(HOLD, "true")
    to_the_window(world)
    world.pass_by(600)

    assert world.restarted == {}
    assert condition(world, "RestartScheduled") == ("False", "Held")
    assert "held" in world.restart_status["message"]
    event_free(world)

    world.change(restart=NIGHTLY)
    world.annotate(HOLD, None)
    world.pass_by(1200)
    assert sorted(world.restarted) == PODS


def test_by_hand_bypasses_the_window_the_threshold_and_the_uptime_once() -> None:
    world = a_world(when="Fragmented", minUptime="100h")

    world.annotate(BY_HAND, "now")
    world.pass_by(1200)

    assert sorted(world.restarted) == PODS
    assert world.row("chat-0")["lastRestart"]["reason"] == "ByHand"
    assert world.restart_status["handled"] == "now"
    event_free(world)
    assert all(len(runs) == 1 for runs in world.restarted.values())

    world.pass_time(3600)
    world.annotate(BY_HAND, "again")
    world.pass_by(1200)
    assert all(len(runs) == 2 for runs in world.restarted.values())


def test_the_same_word_works_again_after_it_was_taken_away() -> None:
    world = a_world()
    world.annotate(BY_HAND, "now")
    world.pass_by(1200)
    world.annotate(BY_HAND, None)
    world.look()
    world.pass_time(3600)

    world.annotate(BY_HAND, "now")
    world.pass_by(1200)

    assert all(len(runs) == 2 for runs in world.restarted.values())


def test_by_hand_needs_no_schedule_and_is_no_reason_at_birth() -> None:
    world = RestartWorld(a_resource(replicas=1))
    world.annotate(BY_HAND, "from-git")
    world.bring_up()
    world.pass_by(600)
    assert world.restarted == {}
    assert world.restart_status == {"handled": "from-git"}

    world.annotate(BY_HAND, "now")
    world.pass_by(600)
    assert list(world.restarted) == ["chat-0"]
    assert "nextTime" not in world.restart_status


def test_by_hand_lapses_with_the_window_and_says_so() -> None:
    world = a_world()
    world.annotate(HOLD, "true")
    world.annotate(BY_HAND, "now")
    world.pass_by(7000)
    assert world.run["state"] == "Running"
    before = LlamaDeploymentStatus.model_validate(world.resource["status"])

    world.pass_by(300)
    assert world.run["state"] == "Closed"
    message = world.restart_status["message"]
    assert "lapsed after restart.window" in message
    assert "Not reached: chat-0, chat-1, chat-2. Restarts are held by the annotation" in message
    after = LlamaDeploymentStatus.model_validate(world.resource["status"])
    assert [event.reason for event in restart_events(before, after)] == ["RestartSkipped"]

    world.annotate(HOLD, None)
    world.pass_by(600)
    assert world.restarted == {}

    world.annotate(BY_HAND, "again")
    world.pass_by(1200)
    assert sorted(world.restarted) == PODS


def test_by_hand_respects_the_budget() -> None:
    world = a_world()
    world.silent.add("chat-0")
    world._set_ready(world.pods["chat-0"], "False")

    world.annotate(BY_HAND, "now")
    world.pass_by(1200)

    assert world.restarted == {}
    assert "Waiting for chat-0 to be Ready" in world.restart_status["message"]


def test_a_young_pod_is_left_alone() -> None:
    world = a_world(minUptime="24h")

    to_the_window(world)
    world.pass_by(600)

    assert world.restarted == {}
    assert "minUptime is 24h" in world.restart_status["message"]


def test_a_pod_that_grows_old_enough_in_the_window_is_waited_for() -> None:
    world = a_world(minUptime="15h15m")

    to_the_window(world)
    world.pass_by(300)
    assert world.restarted == {}
    world.pass_by(3600)

    assert sorted(world.restarted) == PODS


def test_a_container_restart_soon_after_the_last_waits_for_the_kubelets_patience() -> None:
    world = a_world()
    world.annotate(BY_HAND, "now")
    world.pass_by(600)
    assert all(len(runs) == 1 for runs in world.restarted.values())

    world.annotate(BY_HAND, "again")
    world.look()
    assert all(len(runs) == 1 for runs in world.restarted.values())
    assert "the kubelet delays a restart" in world.restart_status["message"]
    world.pass_by(1200)

    assert all(len(runs) == 2 for runs in world.restarted.values())


def test_a_refused_eviction_is_tried_until_the_window_closes_and_reported() -> None:
    world = a_world(method="Pod", window="20m")
    world.budget_forbids = True

    to_the_window(world)
    world.pass_by(300)
    assert "disruption budget" in world.restart_status["message"]
    assert condition(world, "Ready")[0] == "True"
    before = world.statuses
    world.pass_by(300)
    assert world.statuses == before

    world.pass_by(900)
    assert world.run["state"] == "Closed"
    assert world.restart_status["skipped"] == 3
    assert "disruption budget" in world.restart_status["message"]
    assert world.restarted == {}


def test_an_eviction_that_is_allowed_later_happens() -> None:
    world = a_world(method="Pod")
    world.budget_forbids = True
    to_the_window(world)
    world.pass_by(300)

    world.budget_forbids = False
    world.pass_by(1800)

    assert {name: len(runs) for name, runs in world.restarted.items()} == dict.fromkeys(PODS, 1)


def test_a_pod_that_does_not_come_back_halts_the_run() -> None:
    world = a_world()
    to_the_window(world)
    world.silent.add("chat-2")
    world.pass_by(3600, step=60)

    assert list(world.restarted) == ["chat-2"]
    assert condition(world, "RestartHalted") == ("True", "PodNotReady")
    assert world.run["state"] == "Halted"
    assert world.restart_status["skipped"] == 2

    # The next window waits for the pod too.
    world.pass_by(86400, step=1200)
    assert len(world.restarted["chat-2"]) == 1
    assert list(world.restarted) == ["chat-2"]

    world.silent.clear()
    world.pass_by(86400, step=300)
    assert sorted(world.restarted) == PODS
    assert condition(world, "RestartHalted") == ("", "")


def test_the_cluster_wide_limit_holds() -> None:
    world = a_world()
    world.slot_free = False
    to_the_window(world)
    world.pass_by(300)
    assert world.restarted == {}
    assert "maxConcurrentRestarts" in world.restart_status["message"]

    world.slot_free = True
    world.pass_by(1200)
    assert sorted(world.restarted) == PODS


def test_a_rollout_goes_first() -> None:
    world = a_world()
    to_the_window(world)
    world.look()
    assert list(world.restarted) == ["chat-2"]

    world.change(kv={"maxSequences": 3})
    world.pass_by(1800)

    # Its pods are new in this window, so none is restarted again.
    assert list(world.restarted) == ["chat-2"]
    assert world.unavailable() == 0
    assert world.run["state"] == "Complete"


def windowed(**restart: Any) -> RestartWorld:
    world = a_world(**restart)
    world.change(rollout={"drainTimeout": "1m", "updatePolicy": "Window"})
    world.pass_by(60)
    return world


def test_a_spec_change_waits_for_the_window() -> None:
    world = windowed()
    before = {pod["metadata"]["uid"] for pod in world.pods.values()}

    world.change(kv={"maxSequences": 3})
    world.pass_by(600)
    assert {pod["metadata"]["uid"] for pod in world.pods.values()} == before
    assert condition(world, "UpdatePending") == ("True", "WaitingForWindow")
    assert condition(world, "Ready")[0] == "True"
    event_free(world)

    to_the_window(world)
    world.pass_by(1800)
    assert not {pod["metadata"]["uid"] for pod in world.pods.values()} & before
    assert condition(world, "UpdatePending") == ("False", "UpToDate")
    assert world.restarted == {}


def test_a_broken_pod_is_replaced_at_once() -> None:
    world = windowed()
    before = {name: pod["metadata"]["uid"] for name, pod in world.pods.items()}
    world._set_ready(world.pods["chat-1"], "False")
    world.silent.add("chat-1")

    world.change(kv={"maxSequences": 3})
    world.look()
    world.silent.clear()
    world.pass_by(600)

    after = {name: pod["metadata"]["uid"] for name, pod in world.pods.items()}
    assert {name for name in PODS if before[name] != after[name]} == {"chat-1"}


@pytest.mark.parametrize(
    ("restart", "reason"),
    [
        ({"schedule": "0 0 30 2 *"}, "UnusableSchedule"),
        ({"timeZone": "Mars/One"}, "UnknownTimeZone"),
    ],
)
def test_a_schedule_that_cannot_be_used_is_told(restart: dict[str, Any], reason: str) -> None:
    world = a_world(**restart)

    assert condition(world, "RestartScheduled") == ("False", reason)
    assert condition(world, "Ready")[0] == "True"
    assert "nextTime" not in world.restart_status


def test_one_replica_is_restarted_and_its_downtime_known() -> None:
    world = a_world(replicas=1, method="Pod")

    to_the_window(world)
    world.pass_by(600)

    assert list(world.restarted) == ["chat-0"]
    last = world.row("chat-0")["lastRestart"]
    assert last["downtimeSeconds"] > 0
    assert last["time"] >= time_text(NOW + timedelta(hours=15))
