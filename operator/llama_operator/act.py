"""Carries out what `decide` asks for. Nothing else writes to the API server."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from llama_operator import api
from llama_operator.actions import (
    Action,
    Annotate,
    Apply,
    Create,
    DeletePod,
    Evict,
    Oust,
    RecordEvent,
    object_name,
)
from llama_operator.cache import Cache, controller
from llama_operator.denials import denial
from llama_operator.kube import (
    EVENT,
    LLAMA_DEPLOYMENT,
    OWNED,
    POD,
    ApiException,
    Kubernetes,
    message_of,
)
from llama_operator.metrics import POD_DELETIONS
from llama_operator.names import FIELD_MANAGER, Manifest
from llama_operator.subset import contains

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The API server's answer to something that it will refuse again."""

    object: str
    reason: str
    message: str
    permanent: bool
    soon: bool = False
    """What is in the way goes by itself."""


class Actor:
    """Writes through the API server and tells the cache what came of it."""

    def __init__(
        self,
        kubernetes: Kubernetes,
        cache: Cache,
        *,
        instance: str,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`instance` names this process in the events that it records."""
        self._kubernetes = kubernetes
        self._cache = cache
        self._instance = instance
        self._now = now

    async def act(self, resource: Manifest, actions: Sequence[Action]) -> list[Refusal]:
        """Carry out the actions in their order.

        Gives the refusals that trying again does not cure. Raises ApiException,
        aiohttp.ClientError or TimeoutError for those that it may.
        """
        refusals = []
        for action in actions:
            if isinstance(action, DeletePod):
                await self._delete(resource, action)
            elif isinstance(action, Annotate | Evict):
                if (refusal := await self._restart(action)) is not None:
                    refusals.append(refusal)
            elif (refusal := await self._write(resource, action)) is not None:
                refusals.append(refusal)
        return refusals

    async def write_status(
        self, resource: Manifest, status: api.LlamaDeploymentStatus
    ) -> Manifest | None:
        """Apply the whole status; None when the resource is gone or another by now."""
        metadata = resource["metadata"]
        manifest = {
            "apiVersion": api.API_VERSION,
            "kind": api.KIND,
            "metadata": {
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata["uid"],
            },
            "status": status.to_json(),
        }
        try:
            written = await self._kubernetes.apply(LLAMA_DEPLOYMENT, manifest, "status")
        except ApiException as error:
            if error.status == 404 or (error.status == 409 and "uid" in message_of(error).lower()):
                return None
            raise
        self._cache.learn(written)
        return written

    async def record(self, resource: Manifest, event: RecordEvent) -> None:
        """Record an event about the resource. It is no reason to fail when that is refused."""
        metadata = resource["metadata"]
        moment = self._now().astimezone(UTC)
        text = f"{metadata['uid']}{event.reason}{event.message}{moment.isoformat()}"
        suffix = hashlib.sha256(text.encode()).hexdigest()[:16]
        manifest = {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {
                "name": f"{metadata['name'][:200]}.{suffix}",
                "namespace": metadata["namespace"],
            },
            "eventTime": f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}",
            "reportingController": f"{api.GROUP}/{FIELD_MANAGER}",
            "reportingInstance": self._instance,
            "action": event.action,
            "reason": event.reason,
            "type": event.type,
            "note": event.message[:1024],
            "regarding": {
                "apiVersion": api.API_VERSION,
                "kind": api.KIND,
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata["uid"],
            },
        }
        try:
            await self._kubernetes.create(EVENT, manifest)
        except ApiException as error:
            logger.warning("Failed to record an event: %s", message_of(error))

    async def _delete(self, resource: Manifest, action: DeletePod) -> None:
        try:
            deleted = await self._kubernetes.delete(POD, action.namespace, action.name, action.uid)
        except ApiException as error:
            if error.status == 404 or (error.status == 409 and "uid" in message_of(error).lower()):
                self._cache.drop(_pod_identity(action))
                return
            raise
        logger.info("%s", action.message)
        POD_DELETIONS.labels(reason=action.reason).inc()
        metadata = deleted["metadata"]
        if metadata.get("deletionGracePeriodSeconds") or metadata.get("finalizers"):
            self._cache.learn(deleted)
        else:  # No kubelet runs it: it is gone at once.
            self._cache.drop(deleted)
        await self.record(
            resource, RecordEvent("Normal", action.reason, "DeletePod", action.message)
        )

    async def _restart(self, action: Annotate | Evict) -> Refusal | None:
        """Ask the pod, or evict it; the refusal when its time has not come."""
        try:
            if isinstance(action, Evict):
                await self._kubernetes.evict(action.namespace, action.name, action.uid)
                logger.info("Evicted pod %s", action.name)
                written = await self._kubernetes.get(POD, action.namespace, action.name)
            else:
                body = {"metadata": {"uid": action.uid, "annotations": dict(action.annotations)}}
                written = await self._kubernetes.merge(POD, action.namespace, action.name, body)
                logger.info("Annotated pod %s: %s", action.name, dict(action.annotations))
        except ApiException as error:
            if error.status == 404 or (error.status == 409 and "uid" in message_of(error).lower()):
                self._cache.drop(_pod_identity(action))
                return None
            if error.status not in (403, 409, 422, 429, 500):  # 500: it has two budgets.
                raise
            said = f"{message_of(error).rstrip('.')}."
            reason = "Disruption" if error.status == 429 else "Rejected"
            return Refusal(action.object, reason, said, permanent=False)
        self._cache.learn(written)
        return None

    async def _write(self, resource: Manifest, action: Create | Apply | Oust) -> Refusal | None:
        kind = OWNED[action.manifest["kind"]]
        name = object_name(action.manifest)
        try:
            if isinstance(action, Create):
                written = await self._kubernetes.create(kind, action.manifest)
                logger.info("Created %s", name)
            elif isinstance(action, Oust):
                metadata = action.manifest["metadata"]
                written = await self._kubernetes.merge(
                    kind, metadata["namespace"], metadata["name"], action.patch
                )
                logger.info("Mended %s: %s", name, action.why)
            else:
                written = await self._kubernetes.apply(kind, action.manifest)
                logger.info("Mended %s: %s", name, action.why)
        except ApiException as error:
            return await self._refused(resource, action, error)
        self._cache.learn(written)
        if contains(written, action.manifest):
            return None
        message = f"{name} does not keep what the operator sets: an admission webhook changes it."
        return Refusal(name, "Overruled", message, permanent=False)

    async def _refused(
        self, resource: Manifest, action: Create | Apply | Oust, error: ApiException
    ) -> Refusal | None:
        """What a refusal means; the error itself when trying again may help."""
        name, said = object_name(action.manifest), message_of(error)
        if error.status == 409 and isinstance(action, Create):
            return await self._exists(resource, action)
        if error.status == 404 and isinstance(action, Apply | Oust):
            return None
        if (found := denial(name, error.status, said)) is None:
            raise error
        return Refusal(name, found.reason, found.message, found.permanent, found.soon)

    async def _exists(self, resource: Manifest, action: Create) -> Refusal | None:
        """The name is taken: by ours that the watch has not told of, or by someone's."""
        metadata = action.manifest["metadata"]
        name = object_name(action.manifest)
        try:
            found = await self._kubernetes.get(
                OWNED[action.manifest["kind"]], metadata["namespace"], metadata["name"]
            )
        except ApiException as error:
            if error.status == 404:
                return Refusal(name, "NameTaken", f"{name} has just gone.", False, soon=True)
            raise
        owner = controller(found)
        if owner is not None and owner["uid"] == resource["metadata"]["uid"]:
            self._cache.learn(found)
            if found["metadata"].get("deletionTimestamp") is None:
                return None
            return Refusal(name, "Terminating", f"{name} is still going.", False, soon=True)
        if owner is not None and (owner["kind"], owner["name"]) == (
            api.KIND,
            resource["metadata"]["name"],
        ):
            message = f"{name} of a deleted LlamaDeployment of this name is still going."
            return Refusal(name, "Terminating", message, False, soon=True)
        message = (
            f"{name} exists and does not belong to this LlamaDeployment: "
            "delete it, or give the LlamaDeployment another name."
        )
        return Refusal(name, "NameTaken", message, permanent=True)


def _pod_identity(action: DeletePod | Annotate | Evict) -> Manifest:
    """Enough of the pod for the cache to forget it."""
    metadata = {"namespace": action.namespace, "name": action.name, "uid": action.uid}
    return {"kind": POD.kind, "metadata": metadata}
