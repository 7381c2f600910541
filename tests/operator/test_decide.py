"""What is done next, state by state."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from llama_operator.actions import Apply, Create, DeletePod
from llama_operator.builders import build_pod_disruption_budget, build_service
from llama_operator.decide import Decision, decide
from llama_operator.names import Manifest
from llama_operator.observation import Failure, Observation
from tests.operator.objects import (
    IMAGE,
    NOW,
    a_pod,
    a_resource,
    failed,
    parsed,
    ready,
    running,
    terminating,
    unschedulable,
)

OLD: dict[str, Any] = {"kv": {"maxSequences": 2}}
"""A template that is no longer wanted."""


def look(
    resource: Manifest,
    *pods: Manifest,
    default_image: str = IMAGE,
    failures: dict[str, Failure] | None = None,
    **seen: Any,
) -> Decision:
    """Decide with Service and PodDisruptionBudget in place, unless the test says otherwise."""
    owned = {
        "service": build_service(parsed(resource)),
        "pod_disruption_budget": build_pod_disruption_budget(parsed(resource)),
    }
    observation = Observation(
        resource=resource,
        pods=pods,
        default_image=default_image,
        failures=failures or {},
        **{**owned, **seen},
    )
    return decide(observation, NOW)


def created(decision: Decision) -> list[str]:
    return [
        f"{action.manifest['kind']} {action.manifest['metadata']['name']}"
        for action in decision.actions
        if isinstance(action, Create)
    ]


def deleted(decision: Decision) -> list[tuple[str, str]]:
    return [
        (action.name, action.reason) for action in decision.actions if isinstance(action, DeletePod)
    ]


def first_pod(decision: Decision) -> Manifest:
    return next(
        action.manifest
        for action in decision.actions
        if isinstance(action, Create) and action.manifest["kind"] == "Pod"
    )


def old_pod(index: int) -> Manifest:
    return a_pod(a_resource(**OLD), index)


def test_a_new_resource_gets_everything_at_once() -> None:
    decision = look(a_resource(replicas=2), service=None, pod_disruption_budget=None)

    assert created(decision) == [
        "Service chat",
        "PodDisruptionBudget chat",
        "Pod chat-0",
        "Pod chat-1",
    ]
    assert deleted(decision) == []


def test_nothing_is_done_when_all_is_well() -> None:
    resource = a_resource(replicas=2)

    decision = look(resource, ready(a_pod(resource, 0)), ready(a_pod(resource, 1)))

    assert decision.actions == ()
    assert decision.wake_at is None


def test_a_resource_that_is_being_deleted_is_left_to_the_garbage_collector() -> None:
    resource = a_resource(replicas=2)
    resource["metadata"]["deletionTimestamp"] = "2026-06-01T12:00:00Z"

    decision = look(resource, service=None)

    assert decision == Decision()


def test_scaling_down_deletes_the_highest_first() -> None:
    resource = a_resource(replicas=1)
    pods = [ready(a_pod(resource, index)) for index in range(4)]

    decision = look(resource, *pods)

    assert deleted(decision) == [
        ("chat-3", "ScaledDown"),
        ("chat-2", "ScaledDown"),
        ("chat-1", "ScaledDown"),
    ]


def test_zero_replicas_keep_the_service() -> None:
    resource = a_resource(replicas=0)

    decision = look(resource, ready(a_pod(resource, 0)), service=None)

    assert created(decision) == ["Service chat"]
    assert deleted(decision) == [("chat-0", "ScaledDown")]


def test_a_pod_that_goes_is_waited_for() -> None:
    resource = a_resource()

    assert look(resource, terminating(ready(a_pod(resource, 0)))).actions == ()


def test_one_pod_of_an_old_template_is_replaced_at_a_time() -> None:
    decision = look(a_resource(replicas=3), *(ready(old_pod(index)) for index in range(3)))

    assert deleted(decision) == [("chat-2", "Replaced")]
    assert created(decision) == []


@pytest.mark.parametrize(
    "under_way",
    [
        lambda new: terminating(ready(old_pod(2))),
        lambda new: new,
        running,
        unschedulable,
    ],
    ids=["going", "just made", "not ready", "without a node"],
)
def test_the_next_waits_for_the_last(under_way: Any) -> None:
    resource = a_resource(replicas=3)
    last = under_way(a_pod(resource, 2))

    decision = look(resource, ready(old_pod(0)), ready(old_pod(1)), last)

    assert decision.actions == ()


def test_a_missing_pod_holds_the_rollout() -> None:
    decision = look(a_resource(replicas=3), ready(old_pod(0)), ready(old_pod(1)))

    assert deleted(decision) == []
    assert created(decision) == ["Pod chat-2"]


def test_more_may_go_when_the_user_says_so() -> None:
    resource = a_resource(replicas=4, rollout={"maxUnavailable": 2})

    decision = look(resource, *(ready(old_pod(index)) for index in range(4)))

    assert deleted(decision) == [("chat-3", "Replaced"), ("chat-2", "Replaced")]


@pytest.mark.parametrize("broken", [running, unschedulable], ids=["not ready", "no node"])
def test_a_broken_old_pod_is_replaced_first(broken: Any) -> None:
    resource = a_resource(replicas=3)

    decision = look(resource, broken(old_pod(0)), ready(old_pod(1)), ready(old_pod(2)))

    assert deleted(decision) == [("chat-0", "Replaced")]


@pytest.mark.parametrize(("max_unavailable", "expected"), [(1, 1), (2, 2), (3, 3)])
def test_broken_pods_are_replaced_within_the_budget(max_unavailable: int, expected: int) -> None:
    resource = a_resource(replicas=3, rollout={"maxUnavailable": max_unavailable})

    decision = look(resource, *(running(old_pod(index)) for index in range(3)))

    assert len(deleted(decision)) == expected


def test_a_pod_that_serves_is_kept_while_another_is_broken() -> None:
    resource = a_resource(replicas=2)
    broken_new = running(a_pod(resource, 1), lastState={"terminated": {"exitCode": 1}})

    assert look(resource, ready(old_pod(0)), broken_new).actions == ()


def test_scaling_while_rolling_does_both() -> None:
    resource = a_resource(replicas=2)

    decision = look(resource, *(ready(old_pod(index)) for index in range(3)))

    assert deleted(decision) == [("chat-2", "ScaledDown"), ("chat-1", "Replaced")]


def test_a_refused_pod_waits_for_its_next_try() -> None:
    resource = a_resource()

    decision = look(resource, failed(a_pod(resource, 0)))

    assert decision.actions == ()
    assert decision.wake_at == NOW + timedelta(seconds=10)


def test_then_it_is_made_again_and_keeps_away_from_the_node() -> None:
    resource = a_resource()
    at = NOW - timedelta(seconds=20)
    before = NOW + timedelta(seconds=60)
    pod = failed(
        a_pod(resource, 0, attempt=1, avoided_nodes={"node-b": before}), node="node-a", at=at
    )

    decision = look(resource, pod)

    assert deleted(decision) == [("chat-0", "Retried")]
    annotations = first_pod(decision)["metadata"]["annotations"]
    assert annotations["llama-operator.dev/attempt"] == "2"
    assert annotations["llama-operator.dev/avoided-nodes"] == (
        "node-a=2026-06-01T12:02:40Z,node-b=2026-06-01T12:01:00Z"
    )


def test_a_long_run_starts_a_new_count() -> None:
    resource = a_resource()
    pod = failed(a_pod(resource, 0, attempt=5), reason="Evicted", at=NOW - timedelta(hours=1))
    pod["status"]["containerStatuses"] = [
        {
            "name": "runtime",
            "state": {
                "terminated": {
                    "startedAt": "2026-06-01T11:00:00Z",
                    "finishedAt": "2026-06-01T11:59:45Z",
                }
            },
        }
    ]

    decision = look(resource, pod)

    assert decision.wake_at is None or decision.wake_at > NOW
    assert first_pod(decision)["metadata"]["annotations"]["llama-operator.dev/attempt"] == "1"


def test_a_changed_spec_is_tried_at_once() -> None:
    decision = look(a_resource(), failed(a_pod(a_resource(**OLD), 0, attempt=7)))

    assert deleted(decision) == [("chat-0", "Replaced")]
    assert "llama-operator.dev/attempt" not in first_pod(decision)["metadata"]["annotations"]


def test_when_no_other_node_takes_it_the_same_is_tried_again() -> None:
    resource = a_resource()
    until = NOW + timedelta(seconds=30)
    pod = unschedulable(a_pod(resource, 0, attempt=1, avoided_nodes={"node-a": until}))

    waiting = look(resource, pod)
    observation = Observation(resource=resource, pods=(pod,), default_image=IMAGE)
    later = decide(observation, until)

    assert waiting.actions == ()
    assert waiting.wake_at == until
    assert deleted(later) == [("chat-0", "Retried")]
    again = first_pod(later)
    assert again["metadata"]["annotations"]["llama-operator.dev/attempt"] == "1"
    assert "affinity" not in again["spec"]


def test_a_pod_between_two_tries_is_remembered_in_the_status() -> None:
    resource = a_resource()
    resource["status"] = {
        "observedGeneration": 1,
        "pods": [
            {
                "name": "chat-0",
                "retry": {"count": 3, "nextTime": "2026-06-01T12:00:20Z", "node": "node-a"},
            }
        ],
    }

    waiting = look(resource)
    later = decide(Observation(resource=resource), NOW + timedelta(seconds=20))

    assert waiting.actions == ()
    assert waiting.wake_at == NOW + timedelta(seconds=20)
    annotations = first_pod(later)["metadata"]["annotations"]
    assert annotations["llama-operator.dev/attempt"] == "3"
    assert annotations["llama-operator.dev/avoided-nodes"].startswith("node-a=")


def test_an_edited_service_is_mended_and_foreign_fields_are_left_alone() -> None:
    resource = a_resource(replicas=0)
    service = build_service(parsed(resource))
    service["spec"]["clusterIP"] = "10.0.0.1"
    service["metadata"]["annotations"] = {"someone": "else"}
    assert look(resource, service=service).actions == ()

    service["spec"]["selector"] = {"wrong": "pods"}
    (action,) = look(resource, service=service).actions

    assert isinstance(action, Apply)
    assert action.manifest == build_service(parsed(resource))


def test_labels_that_were_edited_come_back() -> None:
    resource = a_resource()
    pod = ready(a_pod(resource, 0))
    pod["metadata"]["labels"]["llama-operator.dev/deployment"] = "other"

    (action,) = look(resource, pod).actions

    assert isinstance(action, Apply)
    assert action.manifest["metadata"]["uid"] == pod["metadata"]["uid"]
    assert action.manifest["metadata"]["labels"]["llama-operator.dev/deployment"] == "chat"
    assert "spec" not in action.manifest


def refusal(of: str, *, retry_in: float, permanent: bool = True, generation: int = 1) -> Failure:
    return Failure(
        object=of,
        reason="NameTaken",
        message=f"{of} exists.",
        permanent=permanent,
        count=1,
        generation=generation,
        retry_at=NOW + timedelta(seconds=retry_in),
    )


@pytest.mark.parametrize("name", ["Pod chat-0", "Service chat", "PodDisruptionBudget chat"])
def test_what_the_api_server_refused_is_not_tried_again_at_once(name: str) -> None:
    seen: dict[str, Any] = {"service": None} if name == "Service chat" else {}
    if name == "PodDisruptionBudget chat":
        seen = {"pod_disruption_budget": None}
    resource = a_resource(replicas=1)

    before = look(resource, failures={name: refusal(name, retry_in=5)}, **seen)
    after = look(resource, failures={name: refusal(name, retry_in=0)}, **seen)
    edited = look(resource, failures={name: refusal(name, retry_in=5, generation=0)}, **seen)

    assert name not in created(before)
    assert before.wake_at == NOW + timedelta(seconds=5)
    assert name in created(after)
    assert name in created(edited)


def test_the_default_image_is_kept_when_the_operator_is_upgraded() -> None:
    resource = a_resource(replicas=2)
    resource["status"] = {"observedGeneration": 1, "runtimeImage": "runtime:1"}
    pod = ready(a_pod(resource, 0, image="runtime:1"))

    decision = look(resource, pod, default_image="runtime:2")

    assert deleted(decision) == []
    assert first_pod(decision)["spec"]["containers"][0]["image"] == "runtime:1"
    assert decision.status is not None
    assert decision.status.runtime_image == "runtime:1"


def test_scaling_after_an_upgrade_does_not_mix_images() -> None:
    resource = a_resource(replicas=2, generation=2)
    resource["status"] = {"observedGeneration": 1, "runtimeImage": "runtime:1"}
    pod = ready(a_pod(resource, 0, image="runtime:1"))

    decision = look(resource, pod, default_image="runtime:2")

    assert first_pod(decision)["spec"]["containers"][0]["image"] == "runtime:1"


def test_a_changed_template_takes_the_new_default_image() -> None:
    resource = a_resource(replicas=2, generation=2)
    resource["status"] = {"observedGeneration": 1, "runtimeImage": "runtime:1"}
    old = ready(a_pod(a_resource(**OLD), 0, image="runtime:1"))

    decision = look(resource, old, default_image="runtime:2")

    assert first_pod(decision)["spec"]["containers"][0]["image"] == "runtime:2"


@pytest.mark.parametrize(
    "spec",
    [
        {"model": {"source": "hf://owner/repo/m.gguf"}},
        {"kv": {"maxSequences": "many"}},
        {"resources": {"cpu": "two"}},
        {"fromTheFuture": {"x": 1}},
        {"rollout": {"drainTimeout": "soon"}},
    ],
    ids=["scheme", "type", "quantity", "unknown field", "duration"],
)
def test_a_spec_that_cannot_be_read_is_stalled_and_touches_nothing(spec: Any) -> None:
    good = a_resource()
    resource = a_resource(generation=4, **spec)
    resource["status"] = {"observedGeneration": 3, "replicas": 1, "readyReplicas": 1}
    observation = Observation(resource=resource, pods=(ready(a_pod(good, 0)),))

    decision = decide(observation, NOW)

    assert decision.actions == ()
    assert decision.wake_at is None
    assert decision.status is not None
    assert decision.status.observed_generation == 4
    assert decision.status.ready_replicas == 1
    conditions = {item.type: (item.status, item.reason) for item in decision.status.conditions}
    assert conditions["Ready"] == ("False", "InvalidSpec")
    assert conditions["Stalled"] == ("True", "InvalidSpec")
    assert conditions["Reconciling"][0] == "False"


def test_a_status_that_cannot_be_read_is_written_anew() -> None:
    resource = a_resource(replicas=0)
    resource["status"] = {"replicas": "many"}

    decision = look(resource)

    assert decision.status is not None
    assert decision.status.replicas == 0


def test_pods_that_are_not_of_the_deployment_are_not_touched() -> None:
    resource = a_resource(replicas=0)
    foreign = a_pod(a_resource(name="chat-blue"), 0)

    assert look(resource, foreign).actions == ()


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_deleted_pod_that_has_drained_was_not_refused(phase: str) -> None:
    """Its replacement is made at once and may go to the same node."""
    resource = a_resource()
    pod = terminating(ready(a_pod(resource, 0)))
    pod["status"]["phase"] = phase

    decision = look(resource, pod)

    assert decision.actions == ()
    assert decision.status is not None
    assert decision.status.pods[0].retry is None
