"""Bringing running sequences side by side, when that pays."""

from __future__ import annotations

from collections.abc import Sequence

from llama_runtime.engine.kv_cache import KVCache
from llama_runtime.engine.neighbours import groups, moves
from llama_runtime.engine.sequence import RunningSequence

# How much slower than a GPU's memory the way through the host's is, roughly.
_DETOUR_FROM_GPU = 100


class Gathering:
    """Counts what scattered ids cost, and moves sequences once that exceeds the move.

    So it never costs more than twice what knowing the future would: a gap makes each step
    read ``weights_bytes`` once more, and a move writes and reads the sequences once.
    """

    def __init__(self, weights_bytes: int, *, on_gpu: bool) -> None:
        self.moved = 0
        self._weights_bytes = weights_bytes
        self._detour = _DETOUR_FROM_GPU if on_gpu else 1
        self._lost = 0

    def before_step(self, running: Sequence[RunningSequence], kv: KVCache) -> None:
        """Move sequences if it is time."""
        if len(running) < 2 or not kv.can_exchange:
            return
        ids = [sequence.id for sequence in running]
        gaps = groups(ids) - 1
        if gaps <= 0:
            self._lost = 0
            return
        self._lost += gaps * self._weights_bytes
        planned = moves(ids, kv.context.max_sequences)
        cells = sum(kv.account.length(one) for move in planned for one in move)
        if 2 * cells * kv.cell_bytes * self._detour > self._lost:
            return
        self._lost = 0
        by_id = {sequence.id: sequence for sequence in running}
        for origin, target in planned:
            sequence = by_id[origin]
            if not kv.exchange(origin, target):
                sequence.computed = 0
            sequence.id = target
            self.moved += 1
