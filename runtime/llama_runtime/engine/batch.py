"""The arrays of a llama_batch, allocated once and filled by numpy."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import llama_cpp
import numpy as np
import numpy.typing as npt

Int32Array = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Row:
    """Consecutive tokens of one sequence; the last ``outputs`` of them give logits."""

    sequence: int
    start: int
    tokens: Int32Array
    outputs: int


class Batch:
    """A llama_batch for up to ``capacity`` tokens, each in one sequence."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._token = np.zeros(capacity, np.int32)
        self._pos = np.zeros(capacity, np.int32)
        self._n_seq_id = np.ones(capacity, np.int32)
        self._sequence = np.zeros(capacity, np.int32)
        self._seq_id = self._sequence.ctypes.data + 4 * np.arange(capacity, dtype=np.uintp)
        self._logits = np.zeros(capacity, np.int8)
        self.native = llama_cpp.llama_batch(
            n_tokens=0,
            token=self._token.ctypes.data_as(ctypes.POINTER(llama_cpp.llama_token)),
            embd=None,
            pos=self._pos.ctypes.data_as(ctypes.POINTER(llama_cpp.llama_pos)),
            n_seq_id=self._n_seq_id.ctypes.data_as(ctypes.POINTER(ctypes.c_int32)),
            seq_id=self._seq_id.ctypes.data_as(
                ctypes.POINTER(ctypes.POINTER(llama_cpp.llama_seq_id))
            ),
            logits=self._logits.ctypes.data_as(ctypes.POINTER(ctypes.c_int8)),
        )

    def fill(self, rows: Sequence[Row]) -> list[int]:
        """Write the rows one after another; the batch index of each row's last token."""
        total = sum(len(row.tokens) for row in rows)
        if not 0 < total <= self.capacity:
            # llama.cpp would abort the process.
            raise ValueError(f"A batch of {total} tokens is not within 1 to {self.capacity}.")
        self._logits[:total] = 0
        last_indices: list[int] = []
        end = 0
        for row in rows:
            begin, end = end, end + len(row.tokens)
            self._token[begin:end] = row.tokens
            if end - begin == 1:
                self._pos[begin] = row.start
            else:
                self._pos[begin:end] = np.arange(row.start, row.start + end - begin)
            self._sequence[begin:end] = row.sequence
            self._logits[end - row.outputs : end] = 1
            last_indices.append(end - 1)
        self.native.n_tokens = total
        return last_indices

    def want_every_output(self) -> None:
        """Embedding contexts output every token."""
        self._logits[: self.native.n_tokens] = 1

    def fits_vocabulary(self, size: int) -> bool:
        """Whether every token id is one of the vocabulary."""
        tokens = self._token[: self.native.n_tokens]
        return bool(tokens.min() >= 0 and tokens.max() < size)
