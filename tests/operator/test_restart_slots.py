"""How many deployments may have a pod restarted at the same time."""

from __future__ import annotations

from llama_operator.api import LlamaDeploymentStatus
from llama_operator.cache import Cache
from llama_operator.names import Key, Manifest
from llama_operator.restart_slots import RestartSlots
from tests.operator.objects import a_resource

RUN = {
    "id": "x",
    "cause": "Hand",
    "openTime": "2026-06-01T03:00:00Z",
    "closeTime": "2026-06-01T05:00:00Z",
    "state": "Running",
    "pods": [{"name": "p-0", "uid": "u", "state": "Asked"}],
}
BUSY = LlamaDeploymentStatus.model_validate({"restart": {"run": RUN}})
FIRST, SECOND, THIRD = (Key("default", name) for name in ("a", "b", "c"))


def a_cache(*busy: str) -> Cache:
    cache = Cache(lambda: 0.0)
    for name in ("a", "b", "c"):
        resource: Manifest = a_resource(name=name, restart={"schedule": "0 3 * * *"})
        resource["metadata"]["uid"] = f"uid-{name}"
        if name in busy:
            resource["status"] = BUSY.to_json()
        cache.put(resource)
    return cache


def test_what_was_decided_counts_before_it_is_written() -> None:
    slots = RestartSlots(a_cache(), 1)
    assert slots.free(FIRST)

    slots.decided(FIRST, BUSY)

    assert slots.free(FIRST)
    assert not slots.free(SECOND)
    slots.decided(FIRST, LlamaDeploymentStatus())
    assert slots.free(SECOND)


def test_after_a_restart_of_the_operator_the_statuses_count() -> None:
    cache = a_cache("a", "b")

    assert not RestartSlots(cache, 2).free(THIRD)
    assert RestartSlots(cache, 2).free(FIRST)
    assert RestartSlots(cache, 3).free(THIRD)


def test_one_that_is_gone_holds_nothing() -> None:
    cache = a_cache()
    slots = RestartSlots(cache, 1)
    slots.decided(FIRST, BUSY)

    slots.forget(FIRST)

    assert slots.free(SECOND)
