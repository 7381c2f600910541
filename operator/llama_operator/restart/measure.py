"""What a runtime measures of itself, as the status keeps it."""

from __future__ import annotations

from llama_operator.api import Measurement
from llama_operator.runtime_status import MemoryReading, Reading, RuntimeStatus


def measure(reading: Reading) -> Measurement | None:
    """The numbers of a runtime that serves; None when it says nothing or has no model yet."""
    if not isinstance(reading, RuntimeStatus) or not reading.model.loaded:
        return None
    kv, memory = reading.kv, reading.memory
    total = None if memory.rss_bytes is None else memory.rss_bytes + (memory.vram_bytes or 0)
    return Measurement(
        span_ratio=_rounded(kv.span_ratio, 2),
        decode_tokens_per_second=_rounded(kv.decode.tokens_per_second, 1),
        decode_slowdown=_rounded(kv.decode.slowdown, 2),
        memory_bytes=total,
        memory_growth=_rounded(_growth(memory), 2),
        cpus=reading.numa.cpus,
        mems=reading.numa.mems,
    )


def _growth(memory: MemoryReading) -> float | None:
    """That of the host's memory or of the GPU's, whichever has grown more."""
    found = [memory.growth]
    if memory.vram_bytes is not None and memory.vram_bytes_at_load:
        found.append(memory.vram_bytes / memory.vram_bytes_at_load - 1)
    return max((growth for growth in found if growth is not None), default=None)


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
