"""Who may act: the rules of a Lease (coordination.k8s.io), as client-go's election has them.

Pure: the clocks are arguments. Moments are seconds of a clock that never goes back and that
counts a pause of the machine, each process its own: clocks of two machines are never compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from llama_operator.names import Key, Manifest

API_VERSION: Final = "coordination.k8s.io/v1"
KIND: Final = "Lease"

DURATION_SECONDS: Final = 15
"""A lease that nobody has renewed for this long may be taken."""

DEADLINE_SECONDS: Final = 10.0
"""From the start of its last renewal that succeeded, a leader may write for this long. What is
left of the duration is for a write that is under way."""

RENEW_SECONDS: Final = 3.0
RETRY_SECONDS: Final = 2.0
REQUEST_SECONDS: Final = 3.0
"""One request about the lease: a lost one leaves time for another before the deadline."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """A state of the lease and the moment at which it was seen first."""

    version: str
    since: float


def sight(before: Sighting | None, lease: Manifest | None, now: float) -> Sighting:
    """Take note of the lease as it is: the same state keeps its first moment."""
    version: str = lease["metadata"]["resourceVersion"] if lease is not None else ""
    return before if before is not None and before.version == version else Sighting(version, now)


def holder(lease: Manifest) -> str:
    """Who holds the lease; empty when it was given back."""
    return lease.get("spec", {}).get("holderIdentity") or ""


def may_create(before: Sighting | None, seen: Sighting, now: float) -> bool:
    """There is no lease. One that was seen before was deleted under its holder, who has to be
    waited for as if it had only stopped."""
    return before is None or now - seen.since >= DURATION_SECONDS


def may_take(lease: Manifest, me: str, seen: Sighting, now: float) -> bool:
    """It is mine already, was given back, or has stayed the same for its whole duration."""
    if holder(lease) in ("", me):
        return True
    duration: float = lease["spec"].get("leaseDurationSeconds") or DURATION_SECONDS
    return now - seen.since >= duration


def new_lease(key: Key, me: str, moment: datetime) -> Manifest:
    """The lease that does not exist yet, held by me."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"namespace": key.namespace, "name": key.name},
        "spec": _held(me, moment) | {"acquireTime": _text(moment), "leaseTransitions": 0},
    }


def claimed(lease: Manifest, me: str, moment: datetime) -> Manifest:
    """The lease held by me from now on. Its resourceVersion stays: who comes second is refused."""
    spec = lease.get("spec", {})
    wanted = spec | _held(me, moment)
    if holder(lease) != me:
        wanted |= {
            "acquireTime": _text(moment),
            "leaseTransitions": (spec.get("leaseTransitions") or 0) + 1,
        }
    return {**lease, "spec": wanted}


def released(lease: Manifest, moment: datetime) -> Manifest:
    """The lease given back: whoever waits takes it at the next look."""
    spec = {**lease["spec"], "renewTime": _text(moment)}
    spec.pop("holderIdentity", None)
    return {**lease, "spec": spec}


def _held(me: str, moment: datetime) -> Manifest:
    return {
        "holderIdentity": me,
        "leaseDurationSeconds": DURATION_SECONDS,
        "renewTime": _text(moment),
    }


def _text(moment: datetime) -> str:
    """metav1.MicroTime."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
