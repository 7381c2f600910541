"""The metrics at GET /metrics, as one table; docs and code read the same rows.

Most values are read from the status document when Prometheus asks; rows without
``read`` are counted while requests come and go (metrics.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from llama_runtime.status import Status
from llama_runtime.version import VERSION

Kind = Literal["gauge", "counter", "histogram"]
Sample = tuple[tuple[str, ...], float]
Read = Callable[[Status], Iterable[Sample]]

STATES = ("Starting", "Loading", "Serving", "Draining", "Failed")
SECONDS_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
TOKEN_SECONDS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.6, 1.2, 2.5)


@dataclass(frozen=True)
class Row:
    """One metric. ``read`` takes its samples from the status document; None: counted live."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    read: Read | None = None
    buckets: tuple[float, ...] = ()


def at(path: str, scale: float = 1.0) -> Read:
    """The number at a dotted path; nothing while it is unknown."""

    def read(status: Status) -> Iterable[Sample]:
        value = _lookup(status, path)
        if isinstance(value, int | float):
            yield (), float(value) * scale

    return read


def each(path: str, keys: tuple[str, ...] | None = None, scale: float = 1.0) -> Read:
    """One sample for each key of the object at a dotted path."""

    def read(status: Status) -> Iterable[Sample]:
        values = _lookup(status, path)
        if isinstance(values, Mapping):
            for key in keys if keys is not None else values:
                if isinstance(values.get(key), int | float):
                    yield (key,), float(values[key]) * scale

    return read


def _info(status: Status) -> Iterable[Sample]:
    yield (VERSION, _text(status, "model.alias"), _text(status, "engine.backend")), 1.0


def _state(status: Status) -> Iterable[Sample]:
    for state in STATES:
        yield (state,), float(status["state"] == state)


def _verdict(status: Status) -> Iterable[Sample]:
    if verdict := _text(status, "numa.verdict"):
        yield (verdict,), 1.0


def _lookup(status: Status, path: str) -> Any:
    value: Any = status
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _text(status: Status, path: str) -> str:
    return str(_lookup(status, path) or "")


ROWS: tuple[Row, ...] = (
    Row(
        "llama_runtime_info",
        "gauge",
        "Always 1; what serves.",
        ("version", "model", "backend"),
        _info,
    ),
    Row("llama_runtime_state", "gauge", "1 for the state the process is in.", ("state",), _state),
    Row(
        "llama_runtime_model_size_bytes",
        "gauge",
        "Size of the model file.",
        read=at("model.sizeBytes"),
    ),
    Row(
        "llama_runtime_model_load_ratio",
        "gauge",
        "How much of the model is loaded, 0 to 1.",
        read=at("model.loadProgress"),
    ),
    Row(
        "llama_runtime_model_load_seconds",
        "gauge",
        "How long the last load took.",
        read=at("model.loadSeconds"),
    ),
    Row(
        "llama_runtime_kv_sequences_max",
        "gauge",
        "Sequences that the KV cache holds (kv.maxSequences).",
        read=at("kv.maxSequences"),
    ),
    Row(
        "llama_runtime_kv_sequences",
        "gauge",
        "Sequences by what they are used for: running, cached (a finished prompt), free.",
        ("use",),
        each("kv.sequences"),
    ),
    Row(
        "llama_runtime_kv_sequence_tokens_max",
        "gauge",
        "Tokens that one sequence may hold (kv.contextPerSequence).",
        read=at("kv.contextPerSequence"),
    ),
    Row(
        "llama_runtime_kv_cells_max",
        "gauge",
        "Cells of the KV cache, for a token each.",
        read=at("kv.contextTokens"),
    ),
    Row(
        "llama_runtime_kv_cells_used",
        "gauge",
        "Cells that hold a token.",
        read=at("kv.cellsUsed"),
    ),
    Row(
        "llama_runtime_kv_cells_span",
        "gauge",
        "Cells up to the highest used one: what attention reads in a unified cache.",
        read=at("kv.span"),
    ),
    Row(
        "llama_runtime_kv_span_ratio",
        "gauge",
        "Part of the span that is empty, 0 to 1: the cost of fragmentation.",
        read=at("kv.spanRatio"),
    ),
    Row("llama_runtime_kv_size_bytes", "gauge", "Memory of the KV cache.", read=at("kv.bytes")),
    Row(
        "llama_runtime_generations_active",
        "gauge",
        "Generations by state: running, or queued for a sequence.",
        ("state",),
        each("requests", ("running", "queued")),
    ),
    Row(
        "llama_runtime_queue_limit",
        "gauge",
        "Generations that may wait (server.queueLimit).",
        read=at("requests.queueLimit"),
    ),
    Row(
        "llama_runtime_generations_total",
        "counter",
        "Generations by outcome: finished, failed, rejected or cancelled.",
        ("outcome",),
        each("requests", ("finished", "failed", "rejected", "cancelled")),
    ),
    Row(
        "llama_runtime_prompt_tokens_total",
        "counter",
        "Prompt tokens computed; those from the prefix cache are not among them.",
        read=at("counters.promptTokens"),
    ),
    Row(
        "llama_runtime_cached_prompt_tokens_total",
        "counter",
        "Prompt tokens taken from the prefix cache.",
        read=at("counters.cellsSaved"),
    ),
    Row(
        "llama_runtime_generated_tokens_total",
        "counter",
        "Tokens generated.",
        read=at("counters.predictedTokens"),
    ),
    Row(
        "llama_runtime_prefix_hits_total",
        "counter",
        "Prompts that found a part of themselves in the cache.",
        read=at("counters.prefixHits"),
    ),
    Row(
        "llama_runtime_prefix_evictions_total",
        "counter",
        "Cached prompts given up for new ones.",
        read=at("counters.evictions"),
    ),
    Row(
        "llama_runtime_host_cache_hits_total",
        "counter",
        "Evicted prompts that came back from the host's memory.",
        read=at("counters.hostHits"),
    ),
    Row(
        "llama_runtime_host_cache_evictions_total",
        "counter",
        "Evicted prompts that the host's memory gave up for newer ones (kv.hostCache).",
        read=at("counters.hostEvictions"),
    ),
    Row(
        "llama_runtime_host_cache_bytes",
        "gauge",
        "Memory that copies of evicted prompts take, at most kv.hostCache.",
        read=at("kv.hostCache.bytes"),
    ),
    Row(
        "llama_runtime_sequences_moved_total",
        "counter",
        "Sequences that changed places to be side by side (Partitioned).",
        read=at("counters.moved"),
    ),
    Row(
        "llama_runtime_generations_postponed_total",
        "counter",
        "Generations that gave their sequence back to another client before the first token.",
        read=at("counters.postponed"),
    ),
    Row(
        "llama_runtime_steps_total",
        "counter",
        "Calls of llama_decode.",
        read=at("counters.steps"),
    ),
    Row(
        "llama_runtime_step_seconds_total",
        "counter",
        "Time in steps: building the batch, decoding, sampling.",
        read=at("counters.stepSeconds"),
    ),
    Row(
        "llama_runtime_decode_seconds_total",
        "counter",
        "Time inside llama_decode.",
        read=at("counters.decodeSeconds"),
    ),
    Row(
        "llama_runtime_decode_failures_total",
        "counter",
        "Calls of llama_decode that failed.",
        read=at("counters.decodeFailures"),
    ),
    Row(
        "llama_runtime_context_rebuilds_total",
        "counter",
        "Contexts made anew after a failure.",
        read=at("counters.contextRebuilds"),
    ),
    Row(
        "llama_runtime_kv_cures_total",
        "counter",
        "Cures of the KV cache by method: Compact, Clear, Rebuild.",
        ("method",),
        each("counters.cures"),
    ),
    Row(
        "llama_runtime_kv_cure_seconds_total",
        "counter",
        "Time that cures took, in which running generations paused.",
        read=at("counters.cureSeconds"),
    ),
    Row(
        "llama_runtime_kv_restored_sequences",
        "gauge",
        "Cached sequences that were taken over from the process before this one.",
        read=at("kv.restored.sequences"),
    ),
    Row(
        "llama_runtime_kv_restored_tokens",
        "gauge",
        "Tokens of the sequences that were taken over from the process before this one.",
        read=at("kv.restored.tokens"),
    ),
    Row(
        "llama_runtime_decode_tokens_per_second",
        "gauge",
        "Decode speed of late steps: all sequences together, prompts left out.",
        read=at("kv.decode.tokensPerSecond"),
    ),
    Row(
        "llama_runtime_decode_baseline_tokens_per_second",
        "gauge",
        "Decode speed of the packed, young cache at the same depth and number of sequences.",
        read=at("kv.decode.baselineTokensPerSecond"),
    ),
    Row(
        "llama_runtime_decode_slowdown_ratio",
        "gauge",
        "What decoding lost against its baseline, 0 to 1.",
        read=at("kv.decode.slowdown"),
    ),
    Row(
        "llama_runtime_engine_heartbeat_age_seconds",
        "gauge",
        "Time since the engine thread last moved.",
        read=at("engine.heartbeatAgeSeconds"),
    ),
    Row(
        "llama_runtime_engine_threads",
        "gauge",
        "CPU threads of llama.cpp.",
        read=at("engine.threads"),
    ),
    Row(
        "llama_runtime_engine_gpu_layers",
        "gauge",
        "Layers of the model on GPUs.",
        read=at("engine.gpuLayers"),
    ),
    Row(
        "llama_runtime_numa_verdict",
        "gauge",
        "1 for the verdict on where CPUs, memory and GPUs are.",
        ("verdict",),
        _verdict,
    ),
    Row(
        "llama_runtime_numa_verdict_changes_total",
        "counter",
        "Changes of the NUMA verdict while serving.",
        read=at("numa.changes"),
    ),
    Row(
        "llama_runtime_numa_memory_bytes",
        "gauge",
        "Memory of the process on each NUMA node.",
        ("node",),
        each("numa.pagesMiB", scale=2**20),
    ),
    Row(
        "llama_runtime_numa_local_ratio",
        "gauge",
        "Part of the memory that is on the node it should be on, 0 to 1.",
        read=at("numa.localRatio"),
    ),
    Row(
        "llama_runtime_memory_resident_bytes",
        "gauge",
        "Resident memory of the process.",
        read=at("memory.rssBytes"),
    ),
    Row(
        "llama_runtime_memory_growth_ratio",
        "gauge",
        "Resident memory over that after the load, less 1.",
        read=at("memory.growth"),
    ),
    Row(
        "llama_runtime_gpu_memory_used_bytes",
        "gauge",
        "Memory in use on the GPUs.",
        read=at("memory.vramBytes"),
    ),
    Row(
        "llama_runtime_http_requests_active",
        "gauge",
        "Requests to the API that are being answered.",
    ),
    Row(
        "llama_runtime_http_requests_total",
        "counter",
        "Requests to the API by path and status; 499: the client went away first.",
        ("path", "method", "code"),
    ),
    Row(
        "llama_runtime_http_request_duration_seconds",
        "histogram",
        "Time from a request to the end of its answer.",
        ("path",),
        buckets=SECONDS_BUCKETS,
    ),
    Row(
        "llama_runtime_queue_seconds",
        "histogram",
        "Time that a generation waited for a sequence.",
        buckets=SECONDS_BUCKETS,
    ),
    Row(
        "llama_runtime_time_to_first_token_seconds",
        "histogram",
        "Time from a generation's arrival to its first token: the wait and the prompt.",
        buckets=SECONDS_BUCKETS,
    ),
    Row(
        "llama_runtime_time_per_token_seconds",
        "histogram",
        "Mean time between the tokens of a generation.",
        buckets=TOKEN_SECONDS_BUCKETS,
    ),
)


def metric_reference() -> list[dict[str, str]]:
    """The rows of the metrics page: name, type, labels, help."""
    return [
        {"name": row.name, "type": row.kind, "labels": ", ".join(row.labels), "help": row.help}
        for row in ROWS
    ]
