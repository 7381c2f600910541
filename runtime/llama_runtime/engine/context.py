"""A llama_context: what is decoded in it, and the sequences of its KV cache."""

from __future__ import annotations

import ctypes
import itertools
import logging
import re
from collections.abc import Sequence
from typing import Any, cast

import llama_cpp
import numpy as np
import numpy.typing as npt

from llama_runtime.engine.backend import LogLine, collected_log, errors_of
from llama_runtime.engine.batch import Batch, Row
from llama_runtime.engine.memory import context_bytes_on_host, host_memory_limit
from llama_runtime.engine.model import LoadedModel
from llama_runtime.engine.thread_pool import ThreadPool
from llama_runtime.generation import ModelUnusable
from llama_runtime.settings import FlashAttention, KVType, Settings
from llama_runtime.termination import note_memory

logger = logging.getLogger(__name__)

Logits = npt.NDArray[np.float32]
State = npt.NDArray[np.uint8]

_FLASH_ATTENTION: dict[FlashAttention, int] = {
    "Auto": llama_cpp.LLAMA_FLASH_ATTN_TYPE_AUTO,
    "Disabled": llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED,
    "Enabled": llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED,
}
_KV_TYPES: dict[KVType, int] = {
    "f32": llama_cpp.GGML_TYPE_F32,
    "f16": llama_cpp.GGML_TYPE_F16,
    "bf16": 30,  # GGML_TYPE_BF16 (ggml.h); llama-cpp-python has no name for it
    "q8_0": llama_cpp.GGML_TYPE_Q8_0,
    "q5_1": llama_cpp.GGML_TYPE_Q5_1,
    "q5_0": llama_cpp.GGML_TYPE_Q5_0,
    "q4_1": llama_cpp.GGML_TYPE_Q4_1,
    "q4_0": llama_cpp.GGML_TYPE_Q4_0,
    "iq4_nl": llama_cpp.GGML_TYPE_IQ4_NL,
}
_MOST_CELLS = 2**31 - 1
_CELLS_ROUNDED_TO = 256  # llama-context.cpp: GGML_PAD(n_ctx, 256)

# Results of llama_decode (llama.h).
DECODED = 0
NO_SLOT = 1
INVALID_BATCH = -1


def leaves_state_untouched(result: int) -> bool:
    """Whether a failed llama_decode left the KV cache as it was before."""
    return result in (NO_SLOT, INVALID_BATCH)


class Context:
    """One llama_context for ``kv_max_sequences`` sequences. Owned by the engine's thread.

    Everything that llama.cpp answers with an abort of the process is refused here
    with ValueError.
    """

    def __init__(self, model: LoadedModel, settings: Settings, pool: ThreadPool) -> None:
        self.max_sequences = settings.kv_max_sequences
        self.max_outputs = settings.kv_max_sequences
        self.unified = settings.kv_layout == "Unified"
        self.vocabulary_size = model.vocabulary.size
        wanted = _check_size(model, settings)
        weights = None if model.is_on_gpu else model.size_bytes
        log_path = settings.termination_log
        note_memory(log_path, weightsBytes=weights, kvBytes=wanted)
        parameters = _parameters(settings, pool.threads)
        with collected_log() as log:
            pointer = llama_cpp.llama_init_from_model(model.pointer, parameters)
        if not pointer:
            raise _refused(settings, errors_of(log))
        pool.attach(pointer)
        self.pointer: int | None = pointer
        self._memory = llama_cpp.llama_get_memory(pointer)
        self.cells = int(llama_cpp.llama_n_ctx(pointer))
        self.cells_per_sequence = int(llama_cpp.llama_n_ctx_seq(pointer))
        self.batch_size = int(llama_cpp.llama_n_batch(pointer))
        self.micro_batch_size = int(llama_cpp.llama_n_ubatch(pointer))
        self.kv_bytes = _kv_bytes(log)
        note_memory(
            log_path,
            weightsBytes=weights,
            kvBytes=wanted if model.is_on_gpu else self.kv_bytes or wanted,
            computeBytes=_compute_bytes_on_host(log),
        )
        self._batch = Batch(self.batch_size)
        self._pending_copies: set[int] = set()

    def decode(self, rows: Sequence[Row]) -> tuple[int, list[int]]:
        """Compute the rows in one batch; llama_decode's result and each row's batch index.

        Rows come in ascending order of their sequences, one for each sequence, and want up to
        ``max_outputs`` logits together.
        """
        if any(b.sequence <= a.sequence for a, b in itertools.pairwise(rows)):
            raise ValueError("Rows must be in ascending order of their sequences.")
        if not 0 <= rows[0].sequence <= rows[-1].sequence < self.max_sequences:
            raise ValueError(f"Sequences go from 0 to {self.max_sequences - 1}.")
        if sum(row.outputs for row in rows) > self.max_outputs:
            # GGML_ASSERT(n_outputs_max <= cparams.n_outputs_max), llama-context.cpp.
            raise ValueError(f"At most {self.max_outputs} tokens of a batch give logits.")
        indices = self._batch.fill(rows)
        if not self._batch.fits_vocabulary(self.vocabulary_size):
            raise ValueError(f"Token ids go from 0 to {self.vocabulary_size - 1}.")
        result = int(llama_cpp.llama_decode(self.pointer, self._batch.native))
        if result == DECODED:
            self._pending_copies.clear()
        return result, indices

    def logits(self, count: int) -> Logits:
        """A writable view of the last decode's logits: one line for each output of its rows.

        Valid until the next decode.
        """
        address = llama_cpp.llama_get_logits(self.pointer)
        return cast(Logits, np.ctypeslib.as_array(address, (count, self.vocabulary_size)))

    def copy(self, source: int, target: int, keep: int) -> None:
        """Make ``target`` the first ``keep`` positions of ``source``."""
        if self.unified:
            llama_cpp.llama_memory_seq_rm(self._memory, target, -1, -1)
            llama_cpp.llama_memory_seq_cp(self._memory, source, target, 0, keep)
        else:
            # A part of a stream can't be copied (GGML_ASSERT(is_full), llama-kv-cache.cpp).
            llama_cpp.llama_memory_seq_cp(self._memory, source, target, -1, -1)
            self._pending_copies |= {source, target}
            self.cut(target, keep)

    def cut(self, sequence: int, keep: int) -> None:
        """Remove what lies behind the first ``keep`` positions."""
        if not llama_cpp.llama_memory_seq_rm(self._memory, sequence, keep, -1):
            raise ValueError(f"This model can't cut sequence {sequence} at {keep}.")

    def position_range(self, sequence: int) -> tuple[int, int]:
        """The lowest and the highest position stored; (-1, -1) when there is none."""
        return (
            int(llama_cpp.llama_memory_seq_pos_min(self._memory, sequence)),
            int(llama_cpp.llama_memory_seq_pos_max(self._memory, sequence)),
        )

    @property
    def has_pending_copies(self) -> bool:
        return bool(self._pending_copies)

    def is_settled(self, sequence: int) -> bool:
        """Whether ``save`` and ``restore`` may be asked for it."""
        return sequence not in self._pending_copies

    def size_of(self, sequence: int) -> int:
        """Bytes that ``save`` gives."""
        return int(llama_cpp.llama_state_seq_get_size(self.pointer, sequence))

    def save(self, sequence: int) -> State:
        """A copy of what the sequence holds, in the host's memory.

        Not of one that takes part in a pending copy: llama.cpp copies streams in the next
        decode only, and until then this would read, or be overwritten by, what was there before.
        """
        size = self.size_of(sequence)
        data = np.empty(size, np.uint8)
        written = llama_cpp.llama_state_seq_get_data(self.pointer, _bytes_of(data), size, sequence)
        return data[:written]

    def restore(self, sequence: int, data: State) -> bool:
        """Replace what the sequence holds by what was saved; False leaves it empty."""
        read = llama_cpp.llama_state_seq_set_data(
            self.pointer, _bytes_of(data), len(data), sequence
        )
        return int(read) > 0

    def warm_up(self) -> None:
        """Compute a token and forget it: what backends allocate at first use is there then.

        Otherwise the first request pays for it, and memory seems to grow after the load.
        """
        result, _ = self.decode([Row(0, 0, np.zeros(1, np.int32), 1)])
        if result != DECODED:
            logger.warning("The first llama_decode gave %d.", result)
        self.synchronize()
        self.clear()

    def synchronize(self) -> None:
        """Wait until the last decode is computed."""
        llama_cpp.llama_synchronize(self.pointer)

    def clear(self) -> None:
        """Every sequence is empty; the memory keeps its bytes."""
        llama_cpp.llama_memory_clear(self._memory, False)

    def size_of_all(self) -> int:
        """Bytes that save_all writes; 0 when this model's state can't be saved."""
        return int(llama_cpp.llama_state_get_size(self.pointer))

    def save_all(self, state: State) -> bool:
        """Write all sequences into ``state``, of size_of_all bytes; as ``save``, not always."""
        written = llama_cpp.llama_state_get_data(self.pointer, _bytes_of(state), len(state))
        return 0 < int(written) == len(state)

    def restore_all(self, state: State) -> bool:
        """Replace all sequences by what was saved; cells move together, shared ones stay shared.

        False: it does not fit this context, in which nothing is sure to be left.
        """
        read = llama_cpp.llama_state_set_data(self.pointer, _bytes_of(state), len(state))
        return 0 < int(read) == len(state)

    def close(self) -> None:
        if self.pointer:
            llama_cpp.llama_free(self.pointer)
            self.pointer = None


def _bytes_of(data: State) -> Any:
    return data.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))


def _parameters(settings: Settings, threads: int) -> llama_cpp.llama_context_params:
    parameters: llama_cpp.llama_context_params = llama_cpp.llama_context_default_params()
    parameters.n_ctx = _cells(settings)
    parameters.n_batch = settings.engine_batch_size
    parameters.n_ubatch = settings.engine_micro_batch_size
    parameters.n_seq_max = settings.kv_max_sequences
    # As many tokens of a batch have logits; the default reserves n_batch of them.
    parameters.n_outputs_max = settings.kv_max_sequences
    parameters.n_threads = threads
    parameters.n_threads_batch = threads
    parameters.flash_attn_type = _FLASH_ATTENTION[settings.engine_flash_attention]
    parameters.type_k = _KV_TYPES[settings.kv_type_k]
    parameters.type_v = _KV_TYPES[settings.kv_type_v]
    parameters.kv_unified = settings.kv_layout == "Unified"
    parameters.offload_kqv = True
    return parameters


def _compute_bytes_on_host(log: list[LogLine]) -> int | None:
    """As `_kv_bytes`, of the buffers that are not a GPU's."""
    found = [
        float(size)
        for line in log
        for buffer, size in re.findall(r"(\S+) compute buffer size = +([\d.]+) MiB", line.text)
        if buffer == "CPU" or buffer.endswith("_Host")
    ]
    return round(sum(found) * 2**20) if found else None


def _kv_bytes(log: list[LogLine]) -> int | None:
    """llama.cpp says it only in its log, in MiB with two digits after the point."""
    found = [
        float(size)
        for line in log
        for size in re.findall(r"KV buffer size = +([\d.]+) MiB", line.text)
    ]
    return round(sum(found) * 2**20) if found else None


def _cells(settings: Settings) -> int:
    """n_ctx, rounded up in Partitioned as llama.cpp would do it for each sequence."""
    if settings.kv_layout == "Unified":
        return settings.total_context
    per_sequence = -(-settings.kv_context_per_sequence // _CELLS_ROUNDED_TO)
    return per_sequence * _CELLS_ROUNDED_TO * settings.kv_max_sequences


def _check_size(model: LoadedModel, settings: Settings) -> int:
    """The bytes of the host's memory that it takes at least. Raises ModelUnusable."""
    cells = _cells(settings)
    if cells > _MOST_CELLS:
        # n_ctx has 32 bits: a larger one would silently become a small one.
        raise _too_large(settings, f"llama.cpp takes {_MOST_CELLS} at most")
    wanted = context_bytes_on_host(
        model,
        cells,
        settings.kv_type_k,
        settings.kv_type_v,
        on_gpu=model.is_on_gpu,
    )
    wanted += settings.kv_host_cache
    limit = host_memory_limit()
    if limit is not None and wanted > limit:
        raise _too_large(settings, f"it takes {wanted >> 20} MiB, but {limit >> 20} MiB is all")
    return wanted


def _too_large(settings: Settings, detail: str) -> ModelUnusable:
    return ModelUnusable(
        "ContextTooLarge",
        f"A context of {settings.total_context} tokens does not fit into memory ({detail}): "
        f"lower {'kv.hostCache, ' if settings.kv_host_cache else ''}kv.maxSequences or "
        "kv.contextPerSequence, or give the pod more memory.",
    )


def _refused(settings: Settings, errors: list[str]) -> ModelUnusable:
    text = "; ".join(errors)
    detail = (errors[0] if errors else "it gives no reason").rstrip(".")
    if "allocate" in text or "out of memory" in text or "reserve" in text:
        return _too_large(settings, detail)
    return ModelUnusable(
        "ContextRefused",
        f"llama.cpp refuses these settings for this model ({detail}): "
        "change kv.typeK, kv.typeV or engine.flashAttention.",
    )
