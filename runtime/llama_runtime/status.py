"""The document at GET /status; docs/architecture.md has its fields."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from llama_runtime.lifecycle import Lifecycle
from llama_runtime.settings import Settings

STATUS_VERSION = 1

Status = Mapping[str, Any]


@dataclass(frozen=True)
class Facts:
    """What the document is made of, each read at one moment."""

    lifecycle: Lifecycle
    started_at: datetime
    model_bytes: int | None = None
    engine: Mapping[str, Any] | None = None
    numa: Mapping[str, Any] | None = None
    rss_bytes: int | None = None
    rss_bytes_at_load: int | None = None
    key_problem: str | None = None
    request: Mapping[str, object] | None = None


def status_document(settings: Settings, facts: Facts) -> dict[str, Any]:
    """What isn't known is None, never guessed."""
    lifecycle, engine = facts.lifecycle, facts.engine or {}
    reason, message = lifecycle.reason, lifecycle.message
    if lifecycle.state == "Serving" and facts.key_problem:
        reason, message = "APIKeysUnreadable", facts.key_problem
    return {
        "version": STATUS_VERSION,
        "state": lifecycle.state,
        "reason": reason,
        "message": message,
        "startedAt": facts.started_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "model": {
            "alias": settings.model_alias,
            "path": str(settings.model_path),
            "sizeBytes": facts.model_bytes,
            "loadProgress": lifecycle.progress,
            "loadSeconds": lifecycle.load_seconds,
            "loaded": facts.engine is not None,
        },
        "kv": engine.get("kv"),
        "requests": engine.get("requests"),
        "engine": engine.get("engine"),
        "counters": engine.get("counters"),
        "numa": facts.numa,
        "memory": {
            "rssBytes": facts.rss_bytes,
            "rssBytesAtLoad": facts.rss_bytes_at_load,
            "growth": _growth(facts.rss_bytes, facts.rss_bytes_at_load),
            "vramBytes": None,
            "vramBytesAtLoad": None,
            **(engine.get("memory") or {}),
        },
        "request": facts.request,
    }


def _growth(now: int | None, at_load: int | None) -> float | None:
    return round(now / at_load - 1, 4) if now and at_load else None


def heartbeat_age(status: Status) -> float | None:
    """Seconds since the engine thread last said that it runs."""
    age = (status.get("engine") or {}).get("heartbeatAgeSeconds")
    return None if age is None else float(age)


def resident_bytes(statm: Path = Path("/proc/self/statm")) -> int | None:
    """Resident memory of this process; None where the kernel doesn't say."""
    try:
        pages = int(statm.read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")
