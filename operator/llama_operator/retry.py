"""Back-off after a refusal, and the nodes that are avoided for a time.

A pod that the kubelet refuses (TopologyAffinityError, UnexpectedAdmissionError, OutOfcpu)
is Failed for good, and a controller that simply makes another one makes hundreds of them
(kubernetes/kubernetes#84869). The count of refusals and the avoided nodes are on the pod
itself, as annotations, so that looking twice at one Failed pod counts once.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

FIRST_BACKOFF = timedelta(seconds=10)
LONGEST_BACKOFF = timedelta(minutes=10)
AVOID = timedelta(minutes=3)
"""How long a node that refused is avoided. The scheduler needs a moment to find another one;
when there is none, this is the time between two tries."""


def backoff(count: int) -> timedelta:
    """The wait after the COUNTth refusal in a row: 10 s, 20 s, 40 s … 10 min."""
    factor = 1 << min(max(count - 1, 0), 16)
    return min(FIRST_BACKOFF * factor, LONGEST_BACKOFF)


def waiting(until: datetime, now: datetime) -> bool:
    """Whether a wait goes on. One longer than any that begins here means that the clock went
    back meanwhile: it is over, instead of lasting for hours."""
    return now < until <= now + LONGEST_BACKOFF + AVOID


def format_avoided_nodes(nodes: Mapping[str, datetime]) -> str:
    """`node-a=2026-01-01T00:03:00Z,node-b=…`, in order of the names."""
    return ",".join(f"{name}={until:%Y-%m-%dT%H:%M:%SZ}" for name, until in sorted(nodes.items()))


def parse_avoided_nodes(text: str) -> dict[str, datetime]:
    """The inverse of `format_avoided_nodes`; what cannot be read is left out."""
    nodes = {}
    for item in text.split(","):
        name, _, until = item.partition("=")
        moment = parse_time(until)
        if name and moment is not None:
            nodes[name] = moment
    return nodes


def parse_time(text: object) -> datetime | None:
    """A moment as Kubernetes writes it; None when it is none."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None
