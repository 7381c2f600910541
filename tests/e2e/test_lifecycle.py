"""Scale, roll out, heal, delete, uninstall: on real nodes, with the operator killed on the way."""

from __future__ import annotations

import threading
import time

from tests.e2e.chart import NAMESPACE, RELEASE, Release
from tests.e2e.deployment import Deployment, until

KV = {"maxSequences": 8, "contextPerSequence": 512}


def uids(deployment: Deployment) -> set[str]:
    return {str(pod["metadata"]["uid"]) for pod in deployment.pods()}


def test_scaling_adds_and_removes_the_highest_index(chat: Deployment) -> None:
    chat.apply()
    chat.wait_ready()
    (first,) = uids(chat)
    chat.cluster.ok("scale", "llama", "chat", "--replicas=2", "-n", chat.namespace)
    chat.wait_ready(2)
    assert [pod["metadata"]["name"] for pod in chat.pods()] == ["chat-0", "chat-1"]
    chat.cluster.ok("scale", "llama", "chat", "--replicas=1", "-n", chat.namespace)
    chat.wait_ready(1)
    assert uids(chat) == {first}


def test_a_spec_change_replaces_one_pod_at_a_time(chat: Deployment) -> None:
    chat.apply(replicas=2)
    chat.wait_ready(2)
    before = uids(chat)
    fewest = [2]
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.1):
            fewest[0] = min(fewest[0], len(chat.ready_pods()))

    watcher = threading.Thread(target=watch)
    watcher.start()
    chat.apply(replicas=2, kv=KV)
    try:
        chat.wait_ready(2)
    finally:
        stop.set()
        watcher.join()
    assert not before & uids(chat)
    assert fewest[0] == 1


def test_an_unready_pod_does_not_block_its_own_fix(chat: Deployment) -> None:
    chat.apply(replicas=2)
    chat.wait_ready(2)
    chat.apply(replicas=2, model={"source": "pvc://models/absent.gguf"})
    until(
        "the rollout halts on its first pod",
        lambda: chat.condition("ModelLoaded")["reason"] == "ModelFileMissing",
    )
    assert len(chat.ready_pods()) == 1
    chat.apply(replicas=2)
    chat.wait_ready(2)


def test_the_operator_killed_in_a_rollout_finishes_it(chat: Deployment, operator: Release) -> None:
    chat.apply(replicas=2)
    chat.wait_ready(2)
    before = uids(chat)
    chat.apply(replicas=2, kv=KV)
    until("the first pod is being replaced", lambda: uids(chat) != before)
    operator.kill()
    chat.wait_ready(2)
    assert len(uids(chat)) == 2
    assert not before & uids(chat)


def test_an_edited_service_and_a_deleted_budget_come_back(chat: Deployment) -> None:
    chat.apply()
    chat.wait_ready()
    patch = '{"spec":{"selector":{"llama-operator.dev/deployment":"nobody"}}}'
    chat.cluster.ok("patch", "service", "chat", "-n", chat.namespace, "-p", patch)
    chat.cluster.ok("delete", "pdb", "chat", "-n", chat.namespace)
    until(
        "the Service selects the pods again",
        lambda: (
            chat.cluster.get("service", "chat", "-n", chat.namespace)["spec"]["selector"].get(
                "llama-operator.dev/deployment"
            )
            == "chat"
        ),
    )
    until(
        "the PodDisruptionBudget is back and counts the pod",
        lambda: (
            chat.cluster.run("get", "pdb", "chat", "-n", chat.namespace).returncode == 0
            and chat.cluster.get("pdb", "chat", "-n", chat.namespace)
            .get("status", {})
            .get("expectedPods")
            == 1
        ),
    )


def test_at_rest_nothing_is_written(chat: Deployment) -> None:
    chat.apply()
    chat.wait_ready()
    kinds = "llama,pods,service,pdb"

    def versions() -> dict[str, str]:
        items = chat.cluster.get(kinds, "-n", chat.namespace)["items"]
        return {
            f"{i['kind']}/{i['metadata']['name']}": i["metadata"]["resourceVersion"] for i in items
        }

    time.sleep(10)
    before = versions()
    time.sleep(45)
    assert versions() == before


def test_deletion_leaves_nothing(chat: Deployment) -> None:
    chat.apply()
    chat.wait_ready()
    assert "finalizers" not in chat.read()["metadata"]
    chat.cluster.ok("delete", "llama", "chat", "-n", chat.namespace)
    until(
        "its objects are gone",
        lambda: (
            not chat.cluster.get("pods,services,pdb,endpointslices", "-n", chat.namespace)["items"]
        ),
    )


def test_uninstalling_keeps_serving_and_leaves_nothing(chat: Deployment, operator: Release) -> None:
    chat.apply()
    chat.wait_ready()
    operator.uninstall()
    try:
        owned = f"app.kubernetes.io/instance={RELEASE}"
        kinds = "deployments,services,serviceaccounts,pods,configmaps,secrets,leases"
        until(
            "what the release made is gone",
            lambda: (
                not operator.cluster.get(kinds, "-n", NAMESPACE, "-l", owned)["items"]
                and not operator.cluster.get("clusterroles,clusterrolebindings", "-l", owned)[
                    "items"
                ]
            ),
        )
        chat.ask("Write one sentence about the sea.")
        chat.cluster.ok("delete", "llama", "chat", "-n", chat.namespace)
        until("the pods are gone without an operator", lambda: not chat.pods())
    finally:
        operator.install()
