"""Restarts of pods of the real images, while clients stream through the Service."""

from __future__ import annotations

from typing import Any

import pytest
from tests.e2e.breaking import api_server_away, cordoned, drain
from tests.e2e.conversations import Tally, conversations
from tests.e2e.deployment import Deployment, until
from tests.e2e.fragmenting import fragmented
from tests.e2e.restarting import (
    last_restarts,
    restart_by_hand,
    restart_status,
    schedule_soon,
    wait_for_run,
)

pytestmark = [pytest.mark.long, pytest.mark.timeout(6000)]


def uids(chat: Deployment) -> set[str]:
    return {str(pod["metadata"]["uid"]) for pod in chat.pods()}


def restarts_of_containers(chat: Deployment) -> list[int]:
    return [pod["status"]["containerStatuses"][0]["restartCount"] for pod in chat.pods()]


def name(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["name"])


def wait_for_first_turn(chat: Deployment) -> None:
    until(
        "the first pod has its turn",
        lambda: any(
            entry["state"] == "Asked"
            for entry in restart_status(chat).get("run", {}).get("pods", [])
        ),
    )


def nothing_failed(tally: Tally) -> None:
    assert tally.failures == []
    assert tally.finished >= 8


def test_a_window_over_three_replicas_breaks_no_conversation(chat: Deployment) -> None:
    chat.apply(replicas=3)
    chat.wait_ready(3)
    before = uids(chat)
    with conversations(chat) as tally:
        schedule_soon(chat, replicas=3)
        wait_for_run(chat, "every pod was restarted")
    nothing_failed(tally)

    assert uids(chat) == before, "a container restarts in its pod"
    assert restarts_of_containers(chat) == [1, 1, 1]
    until(
        "every pod was measured again",
        lambda: all("after" in last for last in last_restarts(chat).values()),
    )
    for last in last_restarts(chat).values():
        assert (last["method"], last["reason"]) == ("Container", "Scheduled")
        assert last["downtimeSeconds"] > 0
        assert "same CPUs" in last["message"]


def test_compact_and_pod_by_name_break_no_conversation(chat: Deployment) -> None:
    chat.apply(replicas=2, restart={"method": "Compact"})
    chat.wait_ready(2)
    before = uids(chat)
    with conversations(chat) as tally:
        restart_by_hand(chat, "compact")
        assert uids(chat) == before
        assert {last["method"] for last in last_restarts(chat).values()} == {"Compact"}
        assert {last["downtimeSeconds"] for last in last_restarts(chat).values()} == {0.0}

        chat.apply(replicas=2, restart={"method": "Pod"})
        restart_by_hand(chat, "pod")
    nothing_failed(tally)

    assert not uids(chat) & before
    assert {last["method"] for last in last_restarts(chat).values()} == {"Pod"}
    chat.wait_ready(2)


def test_the_one_pod_whose_cache_is_fragmented_is_cured(chat: Deployment) -> None:
    spec = {
        "replicas": 2,
        "kv": {"layout": "Unified", "maxSequences": 8, "contextPerSequence": 4096},
    }
    restart = {"when": "Fragmented", "thresholds": {"spanRatio": 0.4}}
    chat.apply(**spec)
    chat.wait_ready(2)
    first, second = chat.pods()
    with fragmented(chat, first) as outcome:
        # A window judges each pod once, by what was measured last, and the waste comes and goes.
        for _ in range(5):
            schedule_soon(chat, restart=restart, **spec)
            wait_for_run(chat, "both pods were judged")
            if any(last_restarts(chat).values()):
                break
        last = last_restarts(chat)[name(first)]
        assert (last["method"], last["reason"]) == ("Compact", "SpanRatio")
        assert last["before"]["spanRatio"] >= 0.4
        until("it was measured again", lambda: "after" in last_restarts(chat)[name(first)])
    after = last_restarts(chat)[name(first)]["after"]
    assert after["spanRatio"] < 0.1, after
    assert last_restarts(chat)[name(second)] == {}
    assert outcome.broken == []
    assert restarts_of_containers(chat) == [0, 0]


def test_a_drain_of_the_node_during_a_run_breaks_no_conversation(chat: Deployment) -> None:
    chat.apply(replicas=3)
    chat.wait_ready(3)
    with conversations(chat) as tally:
        schedule_soon(chat, replicas=3)
        wait_for_first_turn(chat)
        with cordoned(chat.cluster, "node-0"):
            assert not drain(chat.cluster, "node-0", chat), "the budget allows one pod at a time"
            assert len(chat.ready_pods()) >= 1
        wait_for_run(chat, "the run is over")
        chat.wait_ready(3)
    nothing_failed(tally)
    assert all(count <= 1 for count in restarts_of_containers(chat))


def test_the_api_server_is_away_for_a_minute_during_a_run(chat: Deployment) -> None:
    chat.apply(replicas=3)
    chat.wait_ready(3)
    before = uids(chat)
    with conversations(chat, retries=5) as tally:
        schedule_soon(chat, replicas=3)
        wait_for_first_turn(chat)
        api_server_away(60)
        wait_for_run(chat, "the run is over")
    nothing_failed(tally)
    assert uids(chat) == before
    assert restarts_of_containers(chat) == [1, 1, 1], "no pod twice"
