"""A changed spec replaces pods one at a time, and a broken pod never blocks its own fix."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from tests.operator.integration.api import Api, eventually
from tests.operator.integration.deployment import Deployment
from tests.operator.integration.kubelet import EagerKubelet, Kubelet, is_ready
from tests.operator.integration.process import OperatorProcess


class Sightings:
    """What was seen of the pods while they changed."""

    def __init__(self) -> None:
        self.fewest_ready = 10**9
        self.most = 0
        self.uids: dict[str, list[str]] = {}

    def replaced(self, pods: int) -> bool:
        """That many pods were seen to be others than at first."""
        return sum(len(uids) > 1 for uids in self.uids.values()) >= pods

    def __call__(self, pods: list[dict[str, Any]]) -> None:
        self.fewest_ready = min(self.fewest_ready, sum(map(is_ready, pods)))
        self.most = max(self.most, len(pods))
        for pod in pods:
            uids = self.uids.setdefault(pod["metadata"]["name"], [])
            if pod["metadata"]["uid"] not in uids:
                uids.append(pod["metadata"]["uid"])


def updated(chat: Deployment) -> bool:
    wanted = chat.template_hash()
    hashes = [
        pod["metadata"]["annotations"]["llama-operator.dev/template-hash"] for pod in chat.pods()
    ]
    return chat.settled() and hashes == [wanted] * len(hashes)


def test_pods_are_replaced_one_at_a_time_and_once_each(
    operator: OperatorProcess, api: Api, chat: Deployment
) -> None:
    chat.bring_up(replicas=3)
    seen = Sightings()

    with EagerKubelet(api, seen):
        chat.change(kv={"maxSequences": 4})
        eventually(lambda: updated(chat))

    assert seen.fewest_ready == 2
    assert seen.most == 3
    assert {name: len(uids) for name, uids in seen.uids.items()} == {
        "chat-0": 2,
        "chat-1": 2,
        "chat-2": 2,
    }
    assert chat.events().count("Replaced") == 3
    assert "--kv-max-sequences=4" in chat.pods()[0]["spec"]["containers"][0]["args"]


def test_it_halts_at_a_pod_that_does_not_get_ready_and_goes_on_with_the_fix(
    operator: OperatorProcess, api: Api, chat: Deployment, kubelet: Kubelet
) -> None:
    chat.bring_up(replicas=3)
    before = chat.uids()

    chat.change(image="broken:1")
    eventually(lambda: chat.uids().get("chat-2", before["chat-2"]) != before["chat-2"])
    broken = chat.uids()["chat-2"]
    eventually(lambda: chat.condition("Ready")[0] == "False")
    assert chat.ready_pods() == ["chat-0", "chat-1"]

    chat.change(image="fixed:1")
    eventually(lambda: chat.uids().get("chat-2", broken) != broken)
    assert chat.ready_pods() == ["chat-0", "chat-1"]
    assert {name: chat.uids()[name] for name in ("chat-0", "chat-1")} == {
        name: before[name] for name in ("chat-0", "chat-1")
    }
    with EagerKubelet(api, lambda pods: None):
        eventually(lambda: updated(chat))
    assert {pod["spec"]["containers"][0]["image"] for pod in chat.pods()} == {"fixed:1"}


def test_a_pod_on_its_way_out_is_waited_for(
    operator: OperatorProcess, api: Api, chat: Deployment, kubelet: Kubelet
) -> None:
    chat.bring_up(replicas=2)
    old = chat.uids()["chat-1"]
    api.patch("pods", "chat-1", {"metadata": {"finalizers": ["test.example/hold"]}})

    chat.change(kv={"maxSequences": 4})
    eventually(lambda: "deletionTimestamp" in chat.pods()[1]["metadata"])
    eventually(lambda: chat.status.get("ready") == "1/2")
    assert chat.names() == ["chat-0", "chat-1"]
    assert chat.ready_pods() == ["chat-0"]

    api.patch("pods", "chat-1", {"metadata": {"finalizers": None}})
    eventually(lambda: chat.uids().get("chat-1", old) != old)
    with EagerKubelet(api, lambda pods: None):
        eventually(lambda: updated(chat))


@pytest.mark.parametrize("kills", [1, 3])
def test_killed_in_the_middle_it_converges_and_replaces_nothing_twice(
    operator: OperatorProcess, api: Api, chat: Deployment, kills: int
) -> None:
    chat.bring_up(replicas=3)
    seen = Sightings()

    with EagerKubelet(api, seen):
        chat.change(kv={"maxSequences": 4})
        for count in range(kills):
            eventually(functools.partial(seen.replaced, count + 1))
            operator.kill()
            operator.start()
        eventually(lambda: updated(chat))

    assert seen.fewest_ready >= 2
    assert seen.most == 3
    assert all(len(uids) == 2 for uids in seen.uids.values())


def test_an_upgrade_of_the_operator_replaces_no_pod(
    operator: OperatorProcess, api: Api, chat: Deployment, kubelet: Kubelet
) -> None:
    chat.bring_up(replicas=2)
    before = chat.uids()
    assert operator.stop() == 0

    operator.start(image="llama-runtime:2", resync_seconds=1)
    operator.wait_ready()
    eventually(lambda: operator.metrics()["llama_operator_resyncs_total"] >= 2)
    assert chat.uids() == before

    api.delete("pods", "chat-1")
    eventually(lambda: chat.uids().get("chat-1", before["chat-1"]) != before["chat-1"])
    kubelet.ready("chat-1")
    chat.change(replicas=3)
    eventually(lambda: api.get("pods", "chat-2"))
    assert {pod["spec"]["containers"][0]["image"] for pod in chat.pods()} == {"llama-runtime:1"}

    with EagerKubelet(api, lambda pods: None):
        chat.change(kv={"maxSequences": 4})
        eventually(lambda: updated(chat))
    assert {pod["spec"]["containers"][0]["image"] for pod in chat.pods()} == {"llama-runtime:2"}
