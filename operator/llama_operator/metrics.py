"""The operator's metrics; docs/metrics.md is made from `reference`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

REGISTRY = CollectorRegistry()

RECONCILES = Counter(
    "llama_operator_reconciles_total",
    "Looks at a LlamaDeployment, by how they ended: done, failed.",
    ["result"],
    registry=REGISTRY,
)
RECONCILE_SECONDS = Histogram(
    "llama_operator_reconcile_duration_seconds",
    "Duration of one look at a LlamaDeployment, with the actions that came of it.",
    buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30),
    registry=REGISTRY,
)
QUEUE_DEPTH = Gauge(
    "llama_operator_queue_depth",
    "LlamaDeployments that wait for a look.",
    registry=REGISTRY,
)
RESOURCES = Gauge(
    "llama_operator_llamadeployments",
    "LlamaDeployments that the operator knows.",
    registry=REGISTRY,
)
API_REQUESTS = Counter(
    "llama_operator_api_requests_total",
    "Requests to the API server apart from the watches, by verb, kind and status code.",
    ["verb", "kind", "code"],
    registry=REGISTRY,
)
POD_DELETIONS = Counter(
    "llama_operator_pod_deletions_total",
    "Pods that the operator deleted, by reason: Replaced, Retried, ScaledDown.",
    ["reason"],
    registry=REGISTRY,
)
POD_REFUSALS = Counter(
    "llama_operator_pod_refusals_total",
    "Pods that a kubelet or the API server refused, by its reason.",
    ["reason"],
    registry=REGISTRY,
)
RESTARTS = Counter(
    "llama_operator_restarts_total",
    "Restarts that have ended, by method, reason and result: Done, Failed.",
    ["method", "reason", "result"],
    registry=REGISTRY,
)
RESTART_DOWNTIME = Histogram(
    "llama_operator_restart_downtime_seconds",
    "How long a restarted pod was not Ready, by method.",
    ["method"],
    buckets=(0.1, 1, 5, 10, 20, 30, 60, 120, 300, 600, 1800),
    registry=REGISTRY,
)
RESTARTS_SKIPPED = Counter(
    "llama_operator_restarts_skipped_total",
    "Pods that a run of restarts did not reach before its window closed or it was halted.",
    registry=REGISTRY,
)
RUNTIME_POLLS = Counter(
    "llama_operator_runtime_polls_total",
    "Questions to a runtime's /status, by result: answered, silent.",
    ["result"],
    registry=REGISTRY,
)
RESYNCS = Counter(
    "llama_operator_resyncs_total",
    "Full lists that were compared with what the watches told.",
    registry=REGISTRY,
)
MISSED_CHANGES = Counter(
    "llama_operator_missed_changes_total",
    "Changes that a list told before the watch did.",
    registry=REGISTRY,
)
STREAM_LAG = Gauge(
    "llama_operator_watch_lag_seconds",
    "Age of the oldest change that is known and that the watch has not told yet; 0 when none.",
    registry=REGISTRY,
)

STREAM_SILENCE = Gauge(
    "llama_operator_watch_silence_seconds",
    "Time since the watch that is silent longest was heard; a bookmark comes about every minute.",
    registry=REGISTRY,
)
LEADING = Gauge(
    "llama_operator_leading",
    "1 while this process holds the Lease and acts; 0 while it waits or runs without one.",
    registry=REGISTRY,
)


@dataclass(frozen=True, slots=True)
class Reference:
    """A metric as the documentation lists it."""

    name: str
    type: str
    labels: tuple[str, ...]
    help: str


def reference() -> Iterator[Reference]:
    """Every metric of the operator."""
    for metric in (
        RECONCILES,
        RECONCILE_SECONDS,
        QUEUE_DEPTH,
        RESOURCES,
        API_REQUESTS,
        POD_DELETIONS,
        POD_REFUSALS,
        RESTARTS,
        RESTART_DOWNTIME,
        RESTARTS_SKIPPED,
        RUNTIME_POLLS,
        RESYNCS,
        MISSED_CHANGES,
        STREAM_LAG,
        STREAM_SILENCE,
        LEADING,
    ):
        family = next(iter(metric.describe()))
        suffix = "_total" if family.type == "counter" else ""
        yield Reference(
            f"{family.name}{suffix}", family.type, metric._labelnames, family.documentation
        )
