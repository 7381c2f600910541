"""Where a pod's CPUs, memory and GPUs were found to be: by its running runtime, or by one that
ended because `numa.policy` is Required and it was not aligned. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError

from llama_operator.names import Manifest
from llama_operator.pods import Pod
from llama_operator.retry import AVOID, backoff, parse_time
from llama_operator.runtime_status import NumaReading, Reading, RuntimeStatus

NOT_ALIGNED = "NUMANotAligned"
"""Reason in the termination message of a runtime that exits 78; docs/architecture.md."""


@dataclass(frozen=True, slots=True)
class End:
    """A runtime found itself misaligned on its node and ended without serving."""

    at: datetime
    message: str
    numa: NumaReading


def misaligned_end(pod: Pod) -> End | None:
    """The last such end of a pod that does not serve. Its container would start again and again
    in the same place: the kubelet keeps CPUs, memory node and GPU over a restart."""
    if pod.ready:
        return None
    status = pod.container_status
    for state in (status.get("state", {}), status.get("lastState", {})):
        if (end := _read(state.get("terminated") or {})) is not None:
            return end
    return None


def placement(pod: Pod, reading: Reading | None) -> NumaReading | None:
    """What was measured of the pod; None while nothing was."""
    if isinstance(reading, RuntimeStatus) and reading.numa != NumaReading():
        return reading.numa
    end = misaligned_end(pod)
    return end.numa if end is not None else None


def next_try(pod: Pod, end: End) -> datetime:
    """When the pod may be tried on another node."""
    return end.at + backoff(pod.attempt + 1)


def nodes_to_avoid(pod: Pod, end: End) -> dict[str, datetime]:
    """Where the next try must not go. A kubelet's settings do not change by themselves, so the
    node is avoided from the next try on, not from the end."""
    again = next_try(pod, end)
    nodes = {node: until for node, until in pod.avoided_nodes.items() if until > again}
    return nodes | ({pod.node: again + AVOID} if pod.node is not None else {})


def _read(terminated: Manifest) -> End | None:
    try:
        said = json.loads(terminated.get("message") or "")
    except ValueError:
        return None
    at = parse_time(terminated.get("finishedAt"))
    if not isinstance(said, dict) or said.get("reason") != NOT_ALIGNED or at is None:
        return None
    try:
        numa = NumaReading.model_validate(said.get("numa"))
    except ValidationError:
        numa = NumaReading()
    message = str(said.get("message") or "it gave no message.")
    return End(at, message, numa.model_copy(update={"message": message}))
