"""Restarts across the cluster: how many there may be at a time, and how many there were."""

from __future__ import annotations

from llama_operator.api import LlamaDeploymentStatus
from llama_operator.cache import Cache
from llama_operator.metrics import RESTART_DOWNTIME, RESTARTS, RESTARTS_SKIPPED
from llama_operator.names import Key, Manifest
from llama_operator.restart.plan import holds_a_slot
from llama_operator.restart.telling import ended_restarts, newly_skipped


class RestartSlots:
    """Deployments of which a pod is being restarted, by what was decided and by their status.

    What was decided counts before it is written: two workers do not take the same slot.
    """

    def __init__(self, cache: Cache, most: int) -> None:
        """`cache` has everything there is by the time of the first question."""
        self._cache = cache
        self._most = most
        self._holders: set[Key] | None = None

    def free(self, key: Key) -> bool:
        """Whether this deployment may begin to restart a pod, as far as others are concerned."""
        return len(self._known() - {key}) < self._most

    def decided(self, key: Key, status: LlamaDeploymentStatus | None) -> None:
        """What was decided for a deployment just now."""
        if status is not None and holds_a_slot(status.restart):
            self._known().add(key)
        else:
            self._known().discard(key)

    def forget(self, key: Key) -> None:
        """The deployment is gone."""
        self._known().discard(key)

    def _known(self) -> set[Key]:
        if self._holders is None:
            keys = self._cache.keys()
            self._holders = {key for key in keys if _holds(self._cache.resource(key))}
        return self._holders


def count_restarts(before: LlamaDeploymentStatus, after: LlamaDeploymentStatus) -> None:
    """Count what has ended between two statuses."""
    for restart in ended_restarts(before, after):
        RESTARTS.labels(restart.method, restart.reason, restart.result).inc()
        if restart.downtime_seconds is not None:
            RESTART_DOWNTIME.labels(restart.method).observe(restart.downtime_seconds)
    RESTARTS_SKIPPED.inc(newly_skipped(before, after))


def _holds(resource: Manifest | None) -> bool:
    """`holds_a_slot` of an object as the API server gives it."""
    status = (resource or {}).get("status") or {}
    run = (status.get("restart") or {}).get("run") or {}
    return any(entry.get("state") == "Asked" for entry in run.get("pods") or ())
