"""An exact account of the cells of llama.cpp's KV cache.

llama.cpp has no public call for the number of used cells or the highest one, so
its bookkeeping is followed here: which cells find_slot takes, and which ones
seq_rm and seq_cp free or share (src/llama-kv-cache.cpp). The tests compare both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

Cells = npt.NDArray[np.int32]


class _Stream:
    """One ring of cells: all sequences share it (Unified), or each has its own."""

    def __init__(self, size: int) -> None:
        self.owners = np.zeros(size, np.uint16)
        self.used = 0
        self.span = 0
        self.head = 0

    def take(self, count: int) -> Cells:
        """The cells that find_slot and apply_ubatch give to a micro batch of ``count`` tokens."""
        # Enough unused cells below: start from the beginning, to fill it.
        start = 0 if self.head > self.used + 2 * count else self.head
        window = self.owners[start : start + count]
        if len(window) == count and not window.any():
            cells = np.arange(start, start + count, dtype=np.int32)
        else:
            behind = np.flatnonzero(self.owners[start:] == 0) + start
            before = np.flatnonzero(self.owners[:start] == 0)
            cells = np.concatenate((behind, before))[:count].astype(np.int32)
        if len(cells) < count:
            raise ValueError(f"{count} cells are wanted, but only {len(cells)} are free.")
        self.owners[cells] = 1
        self.used += count
        self.span = max(self.span, int(cells.max()) + 1)
        self.head = int(cells[-1]) + 1
        return cells

    def take_next(self) -> int | None:
        """``take`` for one token where that is the cell at the head, as it nearly always is."""
        cell = self.head
        if cell > self.used + 2 or cell == len(self.owners) or self.owners[cell]:
            return None
        self.owners[cell] = 1
        self.used += 1
        self.head = cell + 1
        self.span = max(self.span, self.head)
        return cell

    def share(self, cells: Cells) -> None:
        self.owners[cells] += 1

    def give_back(self, cells: Cells) -> None:
        self.owners[cells] -= 1
        freed = cells[self.owners[cells] == 0]
        if not len(freed):
            return
        self.used -= len(freed)
        self.head = min(self.head, int(freed.min()))
        if int(freed.max()) + 1 == self.span:
            occupied = np.flatnonzero(self.owners[: self.span])
            self.span = int(occupied[-1]) + 1 if len(occupied) else 0

    def pack(self) -> Cells:
        """The used cells move to the beginning, in their order; where each one went."""
        occupied = np.flatnonzero(self.owners[: self.span])
        moved = np.zeros(len(self.owners), np.int32)
        moved[occupied] = np.arange(len(occupied), dtype=np.int32)
        owners = self.owners[occupied]
        self.owners[:] = 0
        self.owners[: len(owners)] = owners
        self.span = self.used
        self.head = 0
        return moved

    def recount(self) -> None:
        occupied = np.flatnonzero(self.owners)
        self.used = len(occupied)
        self.span = int(occupied[-1]) + 1 if self.used else 0
        self.head = 0

    def clear(self) -> None:
        self.owners[:] = 0
        self.used = self.span = self.head = 0

    def become_copy_of(self, source: _Stream, cells: Cells) -> None:
        """The whole stream is overwritten, the place of the next search included."""
        self.owners[:] = 0
        self.owners[cells] = 1
        self.used = len(cells)
        self.span = int(cells.max()) + 1 if len(cells) else 0
        self.head = source.head


class KVAccount:
    """Cells of each sequence and of the whole cache, as llama.cpp has them.

    ``cells`` is the whole cache: one ring of that size in the Unified layout, else
    one ring of cells / max_sequences for each sequence. A sliding-window model's
    second cache is not counted: this is the one that keeps every position.
    """

    def __init__(
        self, *, cells: int, max_sequences: int, unified: bool, micro_batch_size: int
    ) -> None:
        self.capacity = cells
        self._unified = unified
        self._micro_batch_size = micro_batch_size
        streams, size = (1, cells) if unified else (max_sequences, cells // max_sequences)
        self._streams = [_Stream(size) for _ in range(streams)]
        # The cell of each position; grown as needed, the first _lengths[sequence] are valid.
        self._cells: list[Cells] = [np.zeros(0, np.int32) for _ in range(max_sequences)]
        self._lengths = [0] * max_sequences

    @property
    def used(self) -> int:
        """Cells that hold something, each counted once."""
        return sum(stream.used for stream in self._streams)

    @property
    def span(self) -> int:
        """Cells up to the highest used one, in every ring: attention looks at these."""
        return sum(stream.span for stream in self._streams)

    @property
    def free(self) -> int:
        return self.capacity - self.used

    def ring_state(self, sequence: int) -> tuple[int, int, int]:
        """(span, used, head) of the ring that holds the sequence: find_slot's debug line."""
        stream = self._stream(sequence)
        return stream.span, stream.used, stream.head

    def length(self, sequence: int) -> int:
        """Cells of one sequence, shared ones included; the next position is this number."""
        return self._lengths[sequence]

    def distinct(self, sequences: Iterable[int]) -> int:
        """Cells that these sequences hold together, shared ones counted once."""
        if not self._unified:
            return sum(self._lengths[sequence] for sequence in sequences)
        held = np.zeros(self.capacity, bool)
        for sequence in sequences:
            held[self._view(sequence)] = True
        return int(np.count_nonzero(held))

    def append(self, rows: Sequence[tuple[int, int]]) -> None:
        """A batch was decoded: (sequence, tokens) in the order of the batch."""
        if not self._unified:
            for sequence, count in rows:
                stream = self._streams[sequence]
                if count == 1 and (cell := stream.take_next()) is not None:
                    self._extend_by_one(sequence, cell)
                else:
                    self._extend(sequence, stream.take(count))
            return
        stream = self._streams[0]
        for micro_batch in _split(rows, self._micro_batch_size):
            cells = stream.take(sum(count for _, count in micro_batch))
            end = 0
            for sequence, count in micro_batch:
                begin, end = end, end + count
                self._extend(sequence, cells[begin:end])

    def copy(self, source: int, target: int, keep: int) -> None:
        """Context.copy: the target becomes the first ``keep`` positions of the source."""
        if self._unified:
            self.cut(target, 0)
            shared = self._view(source)[:keep]
            self._streams[0].share(shared)
            self._extend(target, shared)
        else:
            cells = self._view(source)
            self._streams[target].become_copy_of(self._streams[source], cells)
            self._lengths[target] = 0
            self._extend(target, cells)
            self.cut(target, keep)

    def restore(self, sequence: int, count: int) -> None:
        """Context.restore: what the sequence held is replaced by ``count`` cells."""
        self.cut(sequence, 0)
        self._extend(sequence, self._stream(sequence).take(count))

    def cut(self, sequence: int, keep: int) -> None:
        """Context.cut: positions from ``keep`` on are gone."""
        removed = self._view(sequence)[keep:]
        if len(removed):
            self._stream(sequence).give_back(removed)
            self._lengths[sequence] = keep

    def pack(self) -> None:
        """Context.restore of what was just saved: holes are gone, sharing is kept."""
        moved = [stream.pack() for stream in self._streams]
        for sequence, length in enumerate(self._lengths):
            cells = self._cells[sequence][:length]
            cells[:] = moved[0 if self._unified else sequence][cells]

    def cells_of(self, sequence: int) -> Cells:
        """The cell of each of its positions."""
        return self._view(sequence).copy()

    def adopt(self, sequences: Mapping[int, Cells]) -> None:
        """Context.restore_all of what was saved by another process and packed there.

        Raises ValueError for cells that are not those of a packed cache.
        """
        self.clear()
        for sequence, cells in sequences.items():
            stream = self._stream(sequence)
            if len(cells) and not 0 <= cells.min() <= cells.max() < len(stream.owners):
                raise ValueError(f"Sequence {sequence} has cells that do not exist.")
            stream.share(cells)
            self._extend(sequence, cells)
        for stream in self._streams:
            stream.recount()
        if self.used != self.span:
            raise ValueError("The cells are not packed.")

    def clear(self) -> None:
        """Context.clear: every sequence is empty."""
        for stream in self._streams:
            stream.clear()
        self._lengths = [0] * len(self._lengths)

    def _stream(self, sequence: int) -> _Stream:
        return self._streams[0 if self._unified else sequence]

    def _view(self, sequence: int) -> Cells:
        return self._cells[sequence][: self._lengths[sequence]]

    def _extend_by_one(self, sequence: int, cell: int) -> None:
        length, cells = self._lengths[sequence], self._cells[sequence]
        if length == len(cells):
            self._extend(sequence, np.array([cell], np.int32))
            return
        cells[length] = cell
        self._lengths[sequence] = length + 1

    def _extend(self, sequence: int, cells: Cells) -> None:
        begin = self._lengths[sequence]
        end = begin + len(cells)
        if end > len(self._cells[sequence]):
            grown = np.zeros(max(end, 2 * len(self._cells[sequence]), 256), np.int32)
            grown[:begin] = self._cells[sequence][:begin]
            self._cells[sequence] = grown
        self._cells[sequence][begin:end] = cells
        self._lengths[sequence] = end


def _split(rows: Sequence[tuple[int, int]], size: int) -> list[list[tuple[int, int]]]:
    """llama_batch_allocr::split_simple: the batch in pieces of ``size`` tokens."""
    pieces: list[list[tuple[int, int]]] = []
    room = 0
    for sequence, count in rows:
        while count:
            if not room:
                pieces.append([])
                room = size
            part = min(count, room)
            pieces[-1].append((sequence, part))
            count -= part
            room -= part
    return pieces
