"""What `decide` can ask for. `act` carries it out, in the order given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from llama_operator.names import Manifest


@dataclass(frozen=True, slots=True)
class Create:
    """Make an object; one that exists already is never overwritten."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Apply:
    """Give an object of ours back the fields that we set; other fields stay as they are."""

    manifest: Manifest
    why: str


@dataclass(frozen=True, slots=True)
class Oust:
    """Take away what keeps an object of ours from being as wanted, by a merge patch."""

    manifest: Manifest
    patch: Manifest
    why: str


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete the pod with this UID and no other of its name."""

    namespace: str
    name: str
    uid: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Annotate:
    """Set annotations of the pod with this UID; None takes one away."""

    namespace: str
    name: str
    uid: str
    annotations: Mapping[str, str | None]

    @property
    def object(self) -> str:
        """By which a refusal is remembered."""
        return f"Restart {self.name}"


@dataclass(frozen=True, slots=True)
class Evict:
    """Evict the pod with this UID, as far as its disruption budget allows."""

    namespace: str
    name: str
    uid: str

    @property
    def object(self) -> str:
        """By which a refusal is remembered."""
        return f"Restart {self.name}"


@dataclass(frozen=True, slots=True)
class RecordEvent:
    """Tell the user of a change, once."""

    type: Literal["Normal", "Warning"]
    reason: str
    action: str
    message: str


Action = Create | Apply | Oust | DeletePod | Annotate | Evict


def object_name(manifest: Manifest) -> str:
    """Kind and name, such as `Pod chat-0`."""
    return f"{manifest['kind']} {manifest['metadata']['name']}"
