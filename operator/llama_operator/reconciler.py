"""One look at one LlamaDeployment: observe, decide, act."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from llama_operator.act import Actor
from llama_operator.actions import Annotate, DeletePod, Evict, object_name
from llama_operator.cache import Cache
from llama_operator.decide import Decision, decide, previous_status
from llama_operator.failures import Failures
from llama_operator.kube import POD, POD_DISRUPTION_BUDGET, SERVICE
from llama_operator.metrics import POD_REFUSALS, RECONCILE_SECONDS, RECONCILES
from llama_operator.names import Key, Manifest
from llama_operator.observation import Observation
from llama_operator.pace import Pace
from llama_operator.restart.telling import restart_events
from llama_operator.restart_slots import RestartSlots, count_restarts
from llama_operator.runtime_status import Reading
from llama_operator.status.changes import RETRY, due_after, events

ROUNDS = 4
"""Looks in a row before others get their turn. Two are usual: one that acts, one that finds
nothing to do."""


class Reconciler:
    """Brings one LlamaDeployment after the other closer to what is asked for."""

    def __init__(
        self,
        cache: Cache,
        actor: Actor,
        readings: Mapping[str, Reading],
        *,
        default_image: str,
        max_concurrent_restarts: int = 1,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`readings` are what the runtimes said last, by the pod's UID."""
        self._cache = cache
        self._actor = actor
        self._readings = readings
        self._default_image = default_image
        self._now = now
        self._failures = Failures()
        self._slots = RestartSlots(cache, max_concurrent_restarts)
        self._pace = Pace()

    async def reconcile(self, key: Key) -> float | None:
        """Look at the LlamaDeployment and act; the seconds after which to look again.

        Raises what `Actor` raises; the queue tries again.
        """
        started = time.perf_counter()
        try:
            delay = await self._reconcile(key)
        except BaseException:
            RECONCILES.labels(result="failed").inc()
            raise
        RECONCILES.labels(result="done").inc()
        RECONCILE_SECONDS.observe(time.perf_counter() - started)
        return delay

    def forget(self, key: Key) -> None:
        """The LlamaDeployment is gone."""
        self._failures.forget(key)
        self._slots.forget(key)
        self._pace.forget(key)

    async def _reconcile(self, key: Key) -> float | None:
        for _ in range(ROUNDS):
            resource = self._cache.resource(key)
            if resource is None:
                self.forget(key)
                return None
            decision = decide(self._observe(key, resource), self._now())
            self._slots.decided(key, decision.status)
            if not decision.actions:
                return await self._tell(key, resource, decision)
            await self._act(key, resource, decision)
        return 0.0

    def _observe(self, key: Key, resource: Manifest) -> Observation:
        services = self._cache.owned(SERVICE.kind, resource)
        budgets = self._cache.owned(POD_DISRUPTION_BUDGET.kind, resource)
        name = resource["metadata"]["name"]
        return Observation(
            resource=resource,
            pods=tuple(self._cache.owned(POD.kind, resource)),
            service=_named(services, name),
            pod_disruption_budget=_named(budgets, name),
            readings=self._readings,
            failures=self._failures.of(key),
            default_image=self._default_image,
            slot_free=self._slots.free(key),
        )

    async def _act(self, key: Key, resource: Manifest, decision: Decision) -> None:
        refusals = await self._actor.act(resource, decision.actions)
        self._failures.tried(
            key,
            resource["metadata"]["generation"],
            [
                action.object
                if isinstance(action, Annotate | Evict)
                else object_name(action.manifest)
                for action in decision.actions
                if not isinstance(action, DeletePod)
            ],
            refusals,
            self._now(),
        )

    async def _tell(self, key: Key, resource: Manifest, decision: Decision) -> float | None:
        """Write the status if it is due; the seconds until something is."""
        now = self._now()
        wake = [decision.wake_at] if decision.wake_at is not None else []
        if decision.status is not None:
            before = previous_status(resource)
            wait = due_after(before, decision.status)
            if wait is not None:
                due = self._pace.due(key, wait, now)
                if due > now:
                    wake.append(due)
                elif await self._actor.write_status(resource, decision.status) is not None:
                    self._pace.written(key, now)
                    for event in events(before, decision.status):
                        if event.action == RETRY:
                            POD_REFUSALS.labels(reason=event.reason).inc()
                        await self._actor.record(resource, event)
                    count_restarts(before, decision.status)
                    for event in restart_events(before, decision.status):
                        await self._actor.record(resource, event)
        return max((min(wake) - now).total_seconds(), 0.0) if wake else None


def _named(manifests: list[Manifest], name: str) -> Manifest | None:
    return next((item for item in manifests if item["metadata"]["name"] == name), None)
