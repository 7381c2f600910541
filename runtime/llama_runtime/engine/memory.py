"""Whether a context fits into memory, before the kernel answers with an OOM kill."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import llama_cpp

from llama_runtime.engine.model import LoadedModel

MEMINFO = Path("/proc/meminfo")
CGROUP_MEMORY_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)

_BYTES_PER_ELEMENT = {
    "f32": 4.0,
    "f16": 2.0,
    "bf16": 2.0,
    "q8_0": 34 / 32,
    "q5_1": 24 / 32,
    "q5_0": 22 / 32,
    "q4_1": 20 / 32,
    "q4_0": 18 / 32,
    "iq4_nl": 18 / 32,
}  # ggml-common.h: bytes of a block of 32
_CGROUP_FILES = ("max", "current")
_BOOKKEEPING_BYTES = 64  # of one llama_kv_cells entry: position, shift, token, 256 sequence bits


def host_memory_limit(
    meminfo: Path = MEMINFO, cgroup_limits: tuple[Path, ...] = CGROUP_MEMORY_LIMITS
) -> int | None:
    """Bytes that this process may ever use; None when neither kernel nor cgroup says."""
    limits: list[int] = []
    try:
        found = re.search(r"^MemTotal: +(\d+) kB$", meminfo.read_text(), re.MULTILINE)
        if found:
            limits.append(int(found.group(1)) * 1024)
    except OSError:
        pass
    for path in cgroup_limits:
        try:
            limits.append(int(path.read_text()))
        except (OSError, ValueError):  # ValueError: "max", no limit
            continue
    return min(limits, default=None)


def available_host_memory(
    meminfo: Path = MEMINFO, cgroup: Path = CGROUP_MEMORY_LIMITS[0].parent
) -> int | None:
    """Bytes that this process may still take; None when neither kernel nor cgroup says."""
    found: list[int] = []
    try:
        line = re.search(r"^MemAvailable: +(\d+) kB$", meminfo.read_text(), re.MULTILINE)
        if line:
            found.append(int(line.group(1)) * 1024)
    except OSError:
        pass
    try:
        limit, current = (int((cgroup / f"memory.{name}").read_text()) for name in _CGROUP_FILES)
        cached = re.search(r"^inactive_file (\d+)$", (cgroup / "memory.stat").read_text(), re.M)
        found.append(limit - current + (int(cached.group(1)) if cached else 0))
    except (OSError, ValueError):  # ValueError: "max", no limit
        pass
    return max(min(found), 0) if found else None


def estimated_cell_bytes(model: LoadedModel, type_k: str, type_v: str) -> float | None:
    """Bytes of one cell of the KV cache over all layers; None when the GGUF does not tell.

    Exact for models whose layers are alike.
    """
    head_count_kv = int(llama_cpp.llama_model_n_head_kv(model.pointer))
    head_count = int(llama_cpp.llama_model_n_head(model.pointer))
    if not head_count or not head_count_kv:
        return None
    head_size = int(llama_cpp.llama_model_n_embd(model.pointer)) // head_count
    key_size = _metadata_number(model, "attention.key_length") or head_size
    value_size = _metadata_number(model, "attention.value_length") or head_size
    elements = model.layers * head_count_kv
    return elements * (
        key_size * _BYTES_PER_ELEMENT[type_k] + value_size * _BYTES_PER_ELEMENT[type_v]
    )


def context_bytes_on_host(
    model: LoadedModel, cells: int, type_k: str, type_v: str, *, on_gpu: bool
) -> int:
    """A lower bound of what a context takes from the host's memory."""
    per_cell = 0.0 if on_gpu else estimated_cell_bytes(model, type_k, type_v) or 0.0
    return round(cells * (per_cell + _BOOKKEEPING_BYTES))


def _metadata_number(model: LoadedModel, key: str) -> int | None:
    architecture = _metadata(model, "general.architecture")
    text = _metadata(model, f"{architecture}.{key}")
    return int(text) if text and text.isdigit() else None


def _metadata(model: LoadedModel, key: str) -> str | None:
    buffer = ctypes.create_string_buffer(256)
    written = llama_cpp.llama_model_meta_val_str(model.pointer, key.encode(), buffer, len(buffer))
    return buffer.value.decode("utf-8", "replace") if written >= 0 else None
