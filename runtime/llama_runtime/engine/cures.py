"""Giving back what a long-running KV cache loses, between two steps; running streams pause.

What attention pays for is the span, the cells up to the highest used one: after long
sequences are gone, a short one near the end keeps it wide.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from llama_runtime.engine.kv_cache import KVCache
from llama_runtime.engine.memory import available_host_memory
from llama_runtime.generation import CureRefused

if TYPE_CHECKING:
    from llama_runtime.engine.decode_speed import Comparison, DecodeSpeed

logger = logging.getLogger(__name__)

Method = Literal["Compact", "Clear", "Rebuild"]
Cause = Literal["Request", "Idle", "DecodeFailed"]

METHODS: tuple[Method, ...] = ("Compact", "Clear", "Rebuild")
WASTEFUL_SPAN_RATIO = 0.25
LEAST_CELLS_TO_GAIN = 256  # llama-kv-cache.cpp: attention spans a multiple of 256 cells
MOST_BYTES_WHEN_IDLE = 256 << 20


@dataclass(frozen=True, slots=True)
class CacheState:
    """Cells used and spanned; ``bytes`` is the memory of the span, None where unknown."""

    cells_used: int
    span: int
    bytes: int | None

    @property
    def span_ratio(self) -> float:
        return 1 - self.cells_used / self.span if self.span else 0.0

    def as_dict(self, tokens_per_second: float | None) -> dict[str, object]:
        return {
            "cellsUsed": self.cells_used,
            "span": self.span,
            "spanRatio": round(self.span_ratio, 4),
            "bytes": self.bytes,
            "tokensPerSecond": None if tokens_per_second is None else round(tokens_per_second, 2),
        }


@dataclass(frozen=True, slots=True)
class Cure:
    """One cure and what it changed."""

    method: Method
    cause: Cause
    time: datetime
    seconds: float
    before: CacheState
    after: CacheState

    def as_dict(self, speeds: Comparison | None) -> dict[str, object]:
        """``kv.lastCure`` of docs/architecture.md; the speeds come when they were measured."""
        return {
            "method": self.method,
            "cause": self.cause,
            "time": self.time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "seconds": round(self.seconds, 6),
            "depth": speeds.depth if speeds else None,
            "before": self.before.as_dict(speeds.before if speeds else None),
            "after": self.after.as_dict(speeds.after if speeds else None),
        }


class Cures:
    """Owned by the engine's thread; ``rebuild`` makes a new context with nothing in it."""

    def __init__(self, kv: KVCache, speed: DecodeSpeed, rebuild: Callable[[], None]) -> None:
        self._kv = kv
        self._speed = speed
        self._rebuild = rebuild
        self.last: Cure | None = None
        self.counts: Counter[Method] = Counter()
        self.seconds = 0.0

    @property
    def must_wait(self) -> bool:
        """llama.cpp still owes copies of streams: the next decode makes them."""
        return self._kv.context.has_pending_copies

    def compact(self, cause: Cause) -> Cure:
        """Pack the cells in use, shared ones still shared; nothing to keep: clear.

        Raises CureRefused where there is no memory for the copy.
        """
        if not self._kv.account.used:
            return self._measured("Clear", cause, self._kv.clear)
        if self._kv.is_packed or self.must_wait:
            return self._measured("Compact", cause, lambda: None)
        size, available = self._kv.context.size_of_all(), available_host_memory()
        if not size or (available is not None and size > available):
            raise CureRefused(
                f"Compacting needs a copy of the cache ({size >> 20} MiB), but only "
                f"{(available or 0) >> 20} MiB of memory are available: ask for a Restart instead."
            )
        return self._measured("Compact", cause, self._pack)

    def compact_if_wasteful(self) -> None:
        """While nothing runs: what would hold up the next request for long is left alone."""
        state = self._state()
        gain = state.span - state.cells_used
        if gain < LEAST_CELLS_TO_GAIN or state.span_ratio < WASTEFUL_SPAN_RATIO:
            return
        if self._kv.is_packed or self.must_wait:
            return
        if self._kv.context.size_of_all() <= MOST_BYTES_WHEN_IDLE:
            with contextlib.suppress(CureRefused):  # nobody asked
                self.compact("Idle")

    def rebuild(self, cause: Cause) -> Cure:
        return self._measured("Rebuild", cause, self._rebuild)

    def _pack(self) -> None:
        if not self._kv.compact():
            logger.error("llama.cpp could not restore what it had saved: the context is made anew.")
            self._rebuild()

    def _measured(self, method: Method, cause: Cause, work: Callable[[], None]) -> Cure:
        before, started = self._state(), time.monotonic()
        self._speed.mark()
        work()
        seconds = time.monotonic() - started
        cure = Cure(method, cause, datetime.now(UTC), seconds, before, self._state())
        self.last = cure
        self.counts[method] += 1
        self.seconds += seconds
        logger.info("The KV cache was cured", extra={"cure": cure.as_dict(None)})
        return cure

    def _state(self) -> CacheState:
        kv = self._kv
        account, size = kv.account, kv.context.kv_bytes
        span_bytes = None if size is None else round(size * account.span / account.capacity)
        return CacheState(account.used, account.span, span_bytes)
