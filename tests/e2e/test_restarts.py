"""Restarts of pods of the real images, while clients stream through the Service."""

from __future__ import annotations

import pytest
from tests.e2e.conversations import Tally, conversations
from tests.e2e.deployment import Deployment, until
from tests.e2e.restarting import last_restarts, restart_by_hand, schedule_soon, wait_for_run

pytestmark = [pytest.mark.long, pytest.mark.timeout(6000)]


def uids(chat: Deployment) -> set[str]:
    return {str(pod["metadata"]["uid"]) for pod in chat.pods()}


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
    assert all(pod["status"]["containerStatuses"][0]["restartCount"] for pod in chat.pods())
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
