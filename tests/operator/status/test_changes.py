from __future__ import annotations

from typing import Any

import pytest

from llama_operator.api import LlamaDeploymentStatus
from llama_operator.status.changes import AT_ONCE, SELDOM, SOON, due_after, events

CONDITION = {
    "type": "Ready",
    "status": "False",
    "reason": "Starting",
    "message": "0 of 1 pods are ready.",
    "lastTransitionTime": "2026-06-01T12:00:00Z",
}
ROW = {"name": "chat-0", "uid": "u", "ready": False}
STATUS = {"observedGeneration": 1, "conditions": [CONDITION], "pods": [ROW], "kv": {}}


def status(*, row: dict[str, Any] | None = None, **fields: Any) -> LlamaDeploymentStatus:
    pods = [{**ROW, **(row or {})}]
    return LlamaDeploymentStatus.model_validate({**STATUS, "pods": pods, **fields})


def with_condition(kind: str, truth: str, reason: str, message: str = "Do this.") -> dict[str, Any]:
    found = {**CONDITION, "type": kind, "status": truth, "reason": reason, "message": message}
    others = [] if kind == "Ready" else [CONDITION]
    return {"conditions": [*others, found]}


def test_the_same_status_is_not_written() -> None:
    assert due_after(status(), status()) is None


def test_a_condition_of_someone_else_is_no_change_and_one_of_ours_that_is_gone_is() -> None:
    foreign = status(**with_condition("Approved", "True", "ByHand"))
    ours = status(**with_condition("GPUOffloaded", "True", "Offloaded"))

    assert due_after(foreign, status()) is None
    assert due_after(ours, status()) == AT_ONCE


@pytest.mark.parametrize(
    "fields",
    [
        {"row": {"ready": True}},
        {"row": {"numaVerdict": "Aligned"}},
        {"observedGeneration": 2},
        {"readyReplicas": 1},
        with_condition("Ready", "False", "Starting", "Another message."),
        {"kv": {"bytesActual": 1}},
    ],
)
def test_what_means_something_is_written_at_once(fields: dict[str, Any]) -> None:
    assert due_after(status(), status(**fields)) == AT_ONCE


def test_a_node_may_wait_a_little() -> None:
    assert due_after(status(), status(row={"node": "node-a"})) == SOON


@pytest.mark.parametrize(
    "fields", [{"row": {"sequences": 3}}, {"row": {"spanRatio": 0.5}}, {"kv": {"spanRatio": 0.5}}]
)
def test_what_a_busy_pod_changes_is_written_seldom(fields: dict[str, Any]) -> None:
    assert due_after(status(), status(**fields)) == SELDOM


def told(before: LlamaDeploymentStatus, after: LlamaDeploymentStatus) -> list[str]:
    return [event.reason for event in events(before, after)]


def test_starting_and_serving_are_no_events() -> None:
    serving = status(**with_condition("Ready", "True", "AllReplicasReady"))

    assert told(LlamaDeploymentStatus(), status()) == []
    assert told(status(), serving) == []
    assert told(serving, status()) == []


def test_a_problem_is_told_once() -> None:
    problem = status(**with_condition("Ready", "False", "NoFreeGPU"))
    other = status(**with_condition("Ready", "False", "OOMKilled"))

    assert told(status(), problem) == ["NoFreeGPU"]
    assert told(problem, problem) == []
    assert told(problem, other) == ["OOMKilled"]


def refused(count: int) -> LlamaDeploymentStatus:
    retry = {
        "count": count,
        "nextTime": "2026-06-01T12:00:10Z",
        "reason": "TopologyAffinityError",
        "node": "node-a",
    }
    return status(row={"retry": retry}, **with_condition("Ready", "False", "TopologyAffinityError"))


def test_every_refusal_is_one_event() -> None:
    (event,) = events(status(), refused(1))

    assert event.reason == "TopologyAffinityError"
    assert "Pod chat-0 was refused by node node-a, 1 in a row" in event.message
    assert told(refused(1), refused(1)) == []
    assert told(refused(1), refused(2)) == ["TopologyAffinityError"]


def test_a_lost_alignment_is_told_once() -> None:
    lost = status(**with_condition("NUMAAligned", "False", "MemoryRemote"))

    assert told(status(), lost) == ["NUMAMemoryRemote"]
    assert told(lost, lost) == []
    assert told(lost, status(**with_condition("NUMAAligned", "True", "Aligned"))) == []
