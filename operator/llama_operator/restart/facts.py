"""What a pod's own status tells about its last start."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

from llama_operator.pods import Pod
from llama_operator.retry import parse_time
from llama_operator.runtime_status import Reading, RuntimeStatus


def restart_count(pod: Pod) -> int:
    """Restarts of the container, by the kubelet's count."""
    return int(pod.container_status.get("restartCount", 0))


def container_started(pod: Pod) -> datetime | None:
    """When the running container was started."""
    running = pod.container_status.get("state", {}).get("running", {})
    return parse_time(running.get("startedAt"))


def up_since(pod: Pod) -> datetime | None:
    """Since when the present process runs; the pod's creation when the kubelet does not say."""
    return container_started(pod) or pod.created


def ready_changed(pod: Pod) -> datetime | None:
    """When the pod became Ready, or stopped being so."""
    return parse_time(pod.condition("Ready").get("lastTransitionTime"))


def deletion_began(pod: Pod) -> datetime | None:
    """When a terminating pod was asked to go: it is no endpoint of the Service since then."""
    metadata = pod.manifest["metadata"]
    end = parse_time(metadata.get("deletionTimestamp"))
    grace = metadata.get("deletionGracePeriodSeconds") or 0
    return None if end is None else end - timedelta(seconds=grace)


def is_of_this_process(reading: Reading, pod: Pod) -> bool:
    """Whether the runtime's words are those of the container that runs now."""
    if not isinstance(reading, RuntimeStatus):
        return False
    started = container_started(pod)
    return started is None or reading.started_at is None or reading.started_at >= started


def unready_by_itself(pod: Pod, run_id: str) -> datetime | None:
    """When the container that ended for this request had begun to say that it is not ready.

    The runtime leaves that in its termination message; docs/architecture.md.
    """
    ended = pod.container_status.get("lastState", {}).get("terminated", {})
    try:
        said = json.loads(ended.get("message") or "")
    except ValueError:
        return None
    if not isinstance(said, dict) or said.get("requestId") != run_id:
        return None
    return parse_time(said.get("unreadyAt"))
