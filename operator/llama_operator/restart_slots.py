"""Restarts across the cluster: how many there may be at a time, and how many there were."""

from __future__ import annotations

from llama_operator.api import LlamaDeploymentStatus
from llama_operator.cache import Cache
from llama_operator.metrics import RESTART_DOWNTIME, RESTARTS, RESTARTS_SKIPPED
from llama_operator.names import RESTART_ANNOTATION, Key, Manifest
from llama_operator.restart.plan import holds_a_slot
from llama_operator.restart.telling import ended_restarts, newly_skipped


class RestartSlots:
    """Deployments of which a pod is being restarted, by what was decided and by their status.

    What was decided counts before it is written: two workers do not take the same slot.
    """

    def __init__(self, cache: Cache, most: int) -> None:
        self._cache = cache
        self._most = most
        self._decided: dict[Key, bool] = {}

    def free(self, key: Key) -> bool:
        """Whether this deployment may begin to restart a pod, as far as others are concerned."""
        if not _may_ask(self._cache.resource(key)):
            return True  # It asks for none: the others need not be counted.
        others = (other for other in self._cache.keys() if other != key)  # noqa: SIM118 - no dict
        taken = sum(
            self._decided.get(other, _holds(self._cache.resource(other))) for other in others
        )
        return taken < self._most

    def decided(self, key: Key, status: LlamaDeploymentStatus | None) -> None:
        """What was decided for a deployment just now."""
        self._decided[key] = status is not None and holds_a_slot(status.restart)

    def forget(self, key: Key) -> None:
        """The deployment is gone."""
        self._decided.pop(key, None)


def count_restarts(before: LlamaDeploymentStatus, after: LlamaDeploymentStatus) -> None:
    """Count what has ended between two statuses."""
    for restart in ended_restarts(before, after):
        RESTARTS.labels(restart.method, restart.reason, restart.result).inc()
        if restart.downtime_seconds is not None:
            RESTART_DOWNTIME.labels(restart.method).observe(restart.downtime_seconds)
    RESTARTS_SKIPPED.inc(newly_skipped(before, after))


def _may_ask(resource: Manifest | None) -> bool:
    if resource is None:
        return False
    annotations = resource["metadata"].get("annotations") or {}
    return bool(resource["spec"].get("restart")) or RESTART_ANNOTATION in annotations


def _holds(resource: Manifest | None) -> bool:
    """`holds_a_slot` of an object as the API server gives it."""
    status = (resource or {}).get("status") or {}
    run = (status.get("restart") or {}).get("run") or {}
    return any(entry.get("state") == "Asked" for entry in run.get("pods") or ())
