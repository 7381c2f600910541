"""The whole status."""

from __future__ import annotations

from datetime import datetime

from llama_operator.api import KvStatus, LlamaDeployment, LlamaDeploymentStatus, PodStatus
from llama_operator.builders.arguments import model_alias
from llama_operator.names import selector
from llama_operator.status.aspects import aspects
from llama_operator.status.conditions import with_times
from llama_operator.status.look import Look
from llama_operator.status.readiness import invalid, readiness
from llama_operator.status.rows import build_rows


def build_status(look: Look, now: datetime) -> LlamaDeploymentStatus:
    """Everything the status says of one look."""
    fleet, metadata = look.fleet, look.resource.metadata
    ready = sum(pod.ready for pod in fleet.wanted())
    rows = build_rows(look)
    return LlamaDeploymentStatus(
        observed_generation=metadata.generation,
        replicas=len(fleet.pods),
        ready_replicas=ready,
        updated_replicas=sum(not fleet.outdated(pod) for pod in fleet.wanted()),
        ready=f"{ready}/{fleet.replicas}",
        selector=selector(metadata.name),
        model=model_alias(look.resource),
        runtime_image=look.image,
        kv=_kv(look, rows),
        restart=look.restart,
        conditions=with_times(
            [*readiness(look), *aspects(look), *look.restart_findings],
            look.previous.conditions,
            metadata.generation,
            now,
        ),
        pods=rows,
    )


def invalid_status(
    name: str, generation: int, previous: LlamaDeploymentStatus, message: str, now: datetime
) -> LlamaDeploymentStatus:
    """What can be said when the spec cannot be read: the rest stays as it was."""
    return previous.model_copy(
        update={
            "observed_generation": generation,
            "selector": selector(name),
            "conditions": with_times(invalid(message), previous.conditions, generation, now),
        }
    )


def context_tokens(resource: LlamaDeployment) -> int:
    """Cells of one pod's KV cache."""
    kv = resource.spec.kv
    return kv.total_context or kv.max_sequences * kv.context_per_sequence


def _kv(look: Look, rows: tuple[PodStatus, ...]) -> KvStatus:
    sizes = [reading.kv.bytes for _, reading in look.known() if reading.kv.bytes is not None]
    before = look.previous.kv
    if not sizes and look.unasked() and before is not None and before.bytes_actual is not None:
        sizes = [before.bytes_actual]
    spans = [row.span_ratio for row in rows if row.span_ratio is not None]
    return KvStatus(
        context_tokens=context_tokens(look.resource),
        bytes_actual=max(sizes, default=None),
        span_ratio=max(spans, default=None),
    )
