"""What `decide` looks at: everything known about one LlamaDeployment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from llama_operator.names import Manifest
from llama_operator.runtime_status import Reading, Unknown


@dataclass(frozen=True, slots=True)
class Failure:
    """The API server refused to make or change an object of ours."""

    object: str
    """Kind and name, such as `Pod chat-0`."""

    reason: str
    message: str
    permanent: bool
    """Someone has to change something before it can work."""

    count: int
    generation: int
    """Generation of the resource for which it was tried: a changed spec is tried at once."""

    retry_at: datetime
    soon: bool = False
    """What is in the way goes by itself: nothing to tell."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One LlamaDeployment and what it owns, as the API server and the runtimes gave it."""

    resource: Manifest
    pods: tuple[Manifest, ...] = ()
    service: Manifest | None = None
    pod_disruption_budget: Manifest | None = None
    readings: Mapping[str, Reading] = field(default_factory=dict)
    """By the pod's UID."""

    failures: Mapping[str, Failure] = field(default_factory=dict)
    """By `Failure.object`."""

    default_image: str = ""
    slot_free: bool = True
    """Fewer restarts are under way in the cluster than are allowed."""

    def reading(self, uid: str) -> Reading:
        """The last status of the runtime in a pod."""
        return self.readings.get(uid, Unknown.NOT_ASKED)
