"""The row of each pod."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from llama_operator.alignment import (
    NOT_ALIGNED,
    misaligned_end,
    next_try,
    nodes_to_avoid,
    placement,
)
from llama_operator.api import AvoidedNode, PodStatus, Retry
from llama_operator.names import pod_name
from llama_operator.pods import Pod
from llama_operator.runtime_status import MISALIGNED, RuntimeStatus, Unknown
from llama_operator.status.look import Look


def build_rows(look: Look) -> tuple[PodStatus, ...]:
    """A row for every pod that exists or waits to be made, in order of the index."""
    before = {row.name: row for row in look.previous.pods}
    by_index = look.fleet.by_index()
    rows = []
    for index in sorted({*range(look.fleet.replicas), *by_index}):
        name = pod_name(look.resource.metadata.name, index)
        pod = by_index.get(index)
        if pod is not None:
            rows.append(_row(look, pod, before.get(name)))
        else:
            rows.append(_absent_row(look, before.get(name), name))
    return tuple(rows)


def _row(look: Look, pod: Pod, before: PodStatus | None) -> PodStatus:
    row = PodStatus(
        name=pod.name,
        uid=pod.uid,
        node=pod.node,
        ready=pod.ready,
        retry=_retry(pod, before),
        last_restart=look.last_restarts.get(pod.name),
    )
    reading = look.readings.get(pod.uid)
    numa = placement(pod, reading)
    tried_again = _was_misaligned(row.retry) or pod.attempt > 0
    if numa is None and before is not None and tried_again and before.numa_verdict in MISALIGNED:
        row = row.model_copy(update={"numa_verdict": before.numa_verdict})
    if numa is not None:
        nodes = numa.cpu_nodes
        row = row.model_copy(
            update={
                "numa_node": nodes[0] if nodes is not None and len(nodes) == 1 else None,
                "numa_verdict": numa.verdict,
            }
        )
    if isinstance(reading, RuntimeStatus):
        span = reading.kv.span_ratio
        return row.model_copy(
            update={
                "span_ratio": None if span is None else round(span, 2),
                "sequences": reading.kv.sequences.running,
            }
        )
    unasked = reading is Unknown.NOT_ASKED and numa is None
    if unasked and before is not None and before.uid == pod.uid:
        kept = ("numa_node", "numa_verdict", "span_ratio", "sequences")
        return row.model_copy(update={name: getattr(before, name) for name in kept})
    return row


def _absent_row(look: Look, before: PodStatus | None, name: str) -> PodStatus:
    """A misaligned pod's verdict stands until the next one has its own."""
    retry = _pending_retry(look, before, name)
    row = PodStatus(name=name, retry=retry, last_restart=look.last_restarts.get(name))
    if before is None or not _was_misaligned(retry):
        return row
    return row.model_copy(update={"numa_verdict": before.numa_verdict})


def _was_misaligned(retry: Retry | None) -> bool:
    return retry is not None and retry.reason == NOT_ALIGNED


def _retry(pod: Pod, before: PodStatus | None) -> Retry | None:
    """Set for a refused pod, and for its replacement while that avoids the node that refused."""
    if pod.given_up and (failed_at := pod.failed_at()) is not None:
        return Retry(
            count=pod.refusals(),
            next_time=pod.next_try(failed_at),
            reason=pod.reason,
            node=pod.node,
            avoided_nodes=_avoided(pod.nodes_to_avoid(failed_at)),
        )
    told = before.retry if before is not None and before.uid == pod.uid else None
    if told is not None and _was_misaligned(told) and told.count == pod.attempt + 1:
        # Its container may have started once more since, and the kubelet forgets all but the last
        # end of a container.
        return None if pod.ready else told
    if (end := misaligned_end(pod)) is not None:
        return Retry(
            count=pod.attempt + 1,
            next_time=next_try(pod, end),
            reason=NOT_ALIGNED,
            node=pod.node,
            avoided_nodes=_avoided(nodes_to_avoid(pod, end)),
        )
    if pod.avoided_nodes and pod.node is None and not pod.terminating:
        return Retry(
            count=pod.attempt,
            next_time=max(pod.avoided_nodes.values()),
            reason=before.retry.reason if before is not None and before.retry else None,
            node=max(pod.avoided_nodes, key=lambda node: pod.avoided_nodes[node]),
            avoided_nodes=_avoided(pod.avoided_nodes),
        )
    return None


def _avoided(nodes: Mapping[str, datetime]) -> tuple[AvoidedNode, ...]:
    return tuple(AvoidedNode(name=name, until=until) for name, until in sorted(nodes.items()))


def _pending_retry(look: Look, before: PodStatus | None, name: str) -> Retry | None:
    """Of a pod that does not exist: refused by the API server, or between two tries."""
    failure = look.failures.get(f"Pod {name}")
    if failure is not None and not failure.soon:
        return Retry(count=failure.count, next_time=failure.retry_at, reason=failure.reason)
    unchanged = look.previous.observed_generation == look.resource.metadata.generation
    return before.retry if before is not None and unchanged else None
