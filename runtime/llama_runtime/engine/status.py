"""What the engine tells about itself: a snapshot after each step, read without a lock."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from llama_runtime.engine.cures import METHODS, Cure
from llama_runtime.engine.decode_speed import Comparison, Reading

if TYPE_CHECKING:
    from llama_runtime.engine.engine import LlamaEngine
    from llama_runtime.engine.scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The scheduler between two steps; the sums are since the start."""

    max_sequences: int = 0
    running: int = 0
    cached: int = 0
    cells_used: int = 0
    span: int = 0
    context_tokens: int = 0
    kv_bytes: int | None = None
    waits_for_cells: bool = False
    service_seconds: float = 1.0
    prompt_tokens: int = 0
    predicted_tokens: int = 0
    cells_saved: int = 0
    prefix_hits: int = 0
    evictions: int = 0
    host_sequences: int = 0
    host_bytes: int = 0
    host_hits: int = 0
    host_evictions: int = 0
    postponed: int = 0
    moved: int = 0
    decode_failures: int = 0
    context_rebuilds: int = 0
    steps: int = 0
    step_seconds: float = 0.0
    decode_seconds: float = 0.0
    finished: int = 0
    failed: int = 0
    cancelled: int = 0
    reading: Reading | None = None
    last_cure: Cure | None = None
    cure_speeds: Comparison | None = None
    cures: Mapping[str, int] = field(default_factory=dict)
    cure_seconds: float = 0.0


def take_snapshot(scheduler: Scheduler) -> Snapshot:
    kv, counters, cures = scheduler.kv, scheduler.counters, scheduler.cures
    return Snapshot(
        max_sequences=kv.context.max_sequences,
        running=len(scheduler.running),
        cached=len(kv.cached),
        cells_used=kv.account.used,
        span=kv.account.span,
        context_tokens=kv.context.cells,
        kv_bytes=kv.context.kv_bytes,
        waits_for_cells=scheduler.waits_for_cells,
        service_seconds=counters.service_seconds,
        prompt_tokens=counters.prompt_tokens,
        predicted_tokens=counters.predicted_tokens,
        cells_saved=kv.cells_saved,
        prefix_hits=kv.prefix_hits,
        evictions=kv.evictions,
        host_sequences=len(kv.host),
        host_bytes=kv.host.bytes,
        host_hits=kv.host_hits,
        host_evictions=kv.host.evictions,
        postponed=counters.postponed,
        moved=scheduler.gathering.moved,
        decode_failures=counters.decode_failures,
        context_rebuilds=counters.context_rebuilds,
        steps=counters.steps,
        step_seconds=counters.step_seconds,
        decode_seconds=counters.decode_seconds,
        finished=counters.finished,
        failed=counters.failed,
        cancelled=counters.cancelled,
        reading=scheduler.speed.reading,
        last_cure=cures.last,
        cure_speeds=scheduler.speed.since_mark,
        cures={method: cures.counts[method] for method in METHODS},
        cure_seconds=cures.seconds,
    )


def status_of(engine: LlamaEngine, snapshot: Snapshot) -> dict[str, object]:
    """``kv``, ``requests``, ``engine`` and ``counters`` as docs/architecture.md has them."""
    settings, model = engine.settings, engine.model
    span_ratio = 1 - snapshot.cells_used / snapshot.span if snapshot.span else 0.0
    return {
        "kv": {
            "layout": settings.kv_layout,
            "maxSequences": settings.kv_max_sequences,
            "contextPerSequence": settings.kv_context_per_sequence,
            "contextTokens": snapshot.context_tokens,
            "bytes": snapshot.kv_bytes,
            "cellsUsed": snapshot.cells_used,
            "span": snapshot.span,
            "spanRatio": round(span_ratio, 4),
            "sequences": {
                "running": snapshot.running,
                "cached": snapshot.cached,
                "free": snapshot.max_sequences - snapshot.running - snapshot.cached,
            },
            "hostCache": {
                "limitBytes": settings.kv_host_cache,
                "bytes": snapshot.host_bytes,
                "sequences": snapshot.host_sequences,
            },
            "decode": _decode(snapshot.reading),
            "lastCure": _last_cure(snapshot),
            "restored": engine.restored.as_dict() if engine.restored else None,
            "kept": engine.kept.as_dict() if engine.kept else None,
        },
        "requests": {
            "running": snapshot.running,
            "queued": engine.queued,
            "queueLimit": settings.server_queue_limit,
            "finished": snapshot.finished,
            "failed": snapshot.failed,
            "rejected": engine.rejected,
            "cancelled": snapshot.cancelled,
        },
        "engine": {
            "threads": engine.threads,
            "gpuLayers": model.offloaded_layers(settings.engine_gpu_layers),
            "devices": list(model.backends.devices),
            "backend": model.backends.cpu_variant,
            "steps": snapshot.steps,
            "heartbeatAgeSeconds": round(time.monotonic() - engine.heartbeat, 3),
            "failed": engine.failed,
        },
        "model": {"sizeBytes": model.size_bytes, "loadSeconds": round(model.load_seconds, 3)},
        "counters": {
            "promptTokens": snapshot.prompt_tokens,
            "predictedTokens": snapshot.predicted_tokens,
            "cellsSaved": snapshot.cells_saved,
            "prefixHits": snapshot.prefix_hits,
            "evictions": snapshot.evictions,
            "hostHits": snapshot.host_hits,
            "hostEvictions": snapshot.host_evictions,
            "postponed": snapshot.postponed,
            "moved": snapshot.moved,
            "decodeFailures": snapshot.decode_failures,
            "contextRebuilds": snapshot.context_rebuilds,
            "steps": snapshot.steps,
            "stepSeconds": snapshot.step_seconds,
            "decodeSeconds": snapshot.decode_seconds,
            "cures": snapshot.cures,
            "cureSeconds": snapshot.cure_seconds,
        },
    }


def _decode(reading: Reading | None) -> dict[str, object] | None:
    if reading is None:
        return None
    return {
        "tokensPerSecond": round(reading.tokens_per_second, 2),
        "depth": reading.depth,
        "baselineTokensPerSecond": round(reading.baseline, 2),
        "slowdown": round(reading.slowdown, 4),
    }


def _last_cure(snapshot: Snapshot) -> dict[str, object] | None:
    cure = snapshot.last_cure
    return None if cure is None else cure.as_dict(snapshot.cure_speeds)
