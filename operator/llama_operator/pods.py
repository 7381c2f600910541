"""A pod as the operator looks at it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from llama_operator.names import (
    ATTEMPT_ANNOTATION,
    AVOIDED_NODES_ANNOTATION,
    CONTAINER,
    TEMPLATE_HASH_ANNOTATION,
    Manifest,
    pod_index,
)
from llama_operator.retry import AVOID, backoff, parse_avoided_nodes, parse_time

LONG_RUN = timedelta(minutes=10)
"""A container that ran this long has shown that it can: its failure starts a new count, as the
kubelet's own back-off does (KEP-4603)."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of one LlamaDeployment; `manifest` is the object that it was read from."""

    name: str
    uid: str
    index: int
    template_hash: str
    attempt: int
    avoided_nodes: dict[str, datetime]
    phase: str
    node: str | None
    ip: str | None
    ready: bool
    terminating: bool
    created: datetime | None
    manifest: Manifest = field(repr=False, compare=False)

    @property
    def failed(self) -> bool:
        """It ended and no kubelet starts it again: refused, evicted or its node is lost."""
        return self.phase in ("Failed", "Succeeded")

    @property
    def given_up(self) -> bool:
        """It failed without being asked to end. A deleted pod ends too, when it has drained;
        the kubelet gives no reason then."""
        asked = self.terminating and self.manifest.get("status", {}).get("reason") is None
        return self.failed and not asked

    @property
    def running(self) -> bool:
        """It has an address and its container may be asked."""
        return self.phase == "Running" and self.ip is not None and not self.terminating

    @property
    def reason(self) -> str:
        """The kubelet's reason for the phase."""
        reason: str = self.manifest.get("status", {}).get("reason") or "PodFailed"
        return reason

    @property
    def image(self) -> str | None:
        """The image that the operator asked for when it made the pod."""
        for container in self.manifest.get("spec", {}).get("containers", []):
            if container.get("name") == CONTAINER:
                image: str = container["image"]
                return image
        return None

    @property
    def container_status(self) -> Manifest:
        """The kubelet's words about the runtime's container; empty before there are any."""
        for status in self.manifest.get("status", {}).get("containerStatuses", []):
            if status.get("name") == CONTAINER:
                found: Manifest = status
                return found
        return {}

    def condition(self, kind: str) -> Manifest:
        """A condition of the pod; empty when it has none of that type."""
        for condition in self.manifest.get("status", {}).get("conditions", []):
            if condition.get("type") == kind:
                found: Manifest = condition
                return found
        return {}

    def failed_at(self) -> datetime | None:
        """When the pod failed, by the cluster's clock; the latest moment that its status names."""
        status = self.manifest.get("status", {})
        terminated = self.container_status.get("state", {}).get("terminated", {})
        moments = [
            self.created,
            parse_time(status.get("startTime")),
            parse_time(terminated.get("finishedAt")),
            *(
                parse_time(condition.get("lastTransitionTime"))
                for condition in status.get("conditions", [])
            ),
        ]
        return max((moment for moment in moments if moment is not None), default=None)

    def refusals(self) -> int:
        """Refusals in a row, this one included."""
        terminated = self.container_status.get("state", {}).get("terminated", {})
        started = parse_time(terminated.get("startedAt"))
        finished = parse_time(terminated.get("finishedAt"))
        if started is not None and finished is not None and finished - started >= LONG_RUN:
            return 1
        return self.attempt + 1

    def next_try(self, now: datetime) -> datetime:
        """When the replacement of this failed pod may be made."""
        return (self.failed_at() or now) + backoff(self.refusals())

    def nodes_to_avoid(self, now: datetime) -> dict[str, datetime]:
        """The nodes that the replacement of this failed pod must not go to."""
        nodes = {node: until for node, until in self.avoided_nodes.items() if until > now}
        if self.node is not None:
            nodes[self.node] = (self.failed_at() or now) + AVOID
        return {node: until for node, until in nodes.items() if until > now}


def read_pod(deployment: str, manifest: Manifest) -> Pod | None:
    """The pod behind a manifest; None when its name is none of this deployment's pods."""
    metadata = manifest["metadata"]
    index = pod_index(deployment, metadata["name"])
    if index is None:
        return None
    annotations = metadata.get("annotations") or {}
    status = manifest.get("status", {})
    attempt = annotations.get(ATTEMPT_ANNOTATION, "")
    conditions = {item.get("type"): item.get("status") for item in status.get("conditions", [])}
    terminating = metadata.get("deletionTimestamp") is not None
    return Pod(
        name=metadata["name"],
        uid=metadata["uid"],
        index=index,
        template_hash=annotations.get(TEMPLATE_HASH_ANNOTATION, ""),
        attempt=int(attempt) if attempt.isascii() and attempt.isdigit() else 0,
        avoided_nodes=parse_avoided_nodes(annotations.get(AVOIDED_NODES_ANNOTATION, "")),
        phase=status.get("phase", "Pending"),
        node=manifest.get("spec", {}).get("nodeName"),
        ip=status.get("podIP"),
        ready=conditions.get("Ready") == "True"
        and status.get("phase") == "Running"
        and not terminating,
        terminating=terminating,
        created=parse_time(metadata.get("creationTimestamp")),
        manifest=manifest,
    )
