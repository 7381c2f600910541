"""The KV cache: which sequence is free, running or cached, and what lies in it.

Every change goes to llama.cpp and to the account together.
"""

from __future__ import annotations

import bisect
import logging
import time
from collections.abc import Sequence

import numpy as np

from llama_runtime.engine.batch import Int32Array, Row
from llama_runtime.engine.context import DECODED, Context, State
from llama_runtime.engine.host_cache import HostCache
from llama_runtime.engine.kv_account import KVAccount
from llama_runtime.engine.model import LoadedModel
from llama_runtime.engine.neighbours import best_id
from llama_runtime.engine.prefix_cache import CachedSequence, PrefixCache, common_prefix
from llama_runtime.engine.sequence import RunningSequence

# A copy between streams moves the whole stream; computing a token moves all weights.
# A prefix below this part of a stream is computed faster than copied.
_WORTH_A_COPY = 1 / 64

_SAME_TAIL = 16

_WORTH_THE_HOST = 16
"""Tokens: fewer are computed as fast as they are copied."""

_CELLS_MOVED_FOR_A_TOKEN = 32
"""A copy through the host moves the whole sequence; it may move so many cells for each token that
need not be computed. On a CPU, which alone copies in this way, a token takes the time of hundreds.
"""

logger = logging.getLogger(__name__)


class KVCache:
    """The sequences of one context. Owned by the engine's thread."""

    def __init__(self, context: Context, model: LoadedModel, host_cache: int = 0) -> None:
        self.cached = PrefixCache()
        self.host = HostCache(host_cache)
        self.host_hits = 0
        self.start_over(context, [])
        self.last_use = [0.0] * context.max_sequences
        self.evictions = 0
        self.prefix_hits = 0
        self.cells_saved = 0
        self._sliding_window = model.sliding_window
        self._is_recurrent = model.is_recurrent
        self._is_on_gpu = model.is_on_gpu

    def start_over(self, context: Context, running: Sequence[int]) -> None:
        """Another context, in which nothing is computed yet; ``running`` keep their ids."""
        self.context = context
        self.account = KVAccount(
            cells=context.cells,
            max_sequences=context.max_sequences,
            unified=context.unified,
            micro_batch_size=context.micro_batch_size,
        )
        self.cached.clear()
        taken = set(running)
        self.free = [one for one in range(context.max_sequences) if one not in taken]

    def forget(self) -> None:
        """The context is gone, and everything in it."""
        self.cached.clear()
        for sequence in range(self.context.max_sequences):
            self.account.cut(sequence, 0)

    @property
    def is_packed(self) -> bool:
        """Whether packing would change nothing."""
        return self._is_recurrent or self.account.used == self.account.span

    def compact(self) -> bool:
        """Pack the cells in use. False: nothing is sure to be left in the context."""
        state = np.empty(self.context.size_of_all(), np.uint8)
        if not (self.context.save_all(state) and self.context.restore_all(state)):
            return False
        self.account.pack()
        return True

    def clear(self) -> None:
        """Nothing is worth keeping; only while nothing is in the cache."""
        self.context.clear()
        self.account.clear()

    def adopt(self, sequences: Sequence[tuple[int, Int32Array, Int32Array]], state: State) -> bool:
        """Take over what another process cached: (id, tokens, cells), oldest first.

        Only while nothing is in the cache. False: it does not fit, and nothing is.
        """
        try:
            if not self.context.restore_all(state):
                raise ValueError("llama.cpp does not take the state.")
            self.account.adopt({sequence: cells for sequence, _, cells in sequences})
            for sequence, tokens, cells in sequences:
                _, highest = self.context.position_range(sequence)
                if not highest + 1 == len(tokens) == len(cells):
                    raise ValueError(f"Sequence {sequence} has other tokens than cells.")
                self.free.remove(sequence)
                self.cached.add(sequence, tokens)
        except (ValueError, IndexError):
            logger.exception("Kept sequences do not fit.")
            self.clear()
            self.cached.clear()
            self.free = list(range(self.context.max_sequences))
            return False
        return True

    def drop_oldest(self) -> None:
        """Forget the least recently used of the cached sequences, for good."""
        oldest = self.cached.least_recently_used()
        if oldest is not None:
            self.cached.remove(oldest.id)
            self.release(oldest.id)

    @property
    def has_room_for_a_sequence(self) -> bool:
        return bool(self.free) or len(self.cached) > 0

    def decode(self, rows: Sequence[Row]) -> tuple[int, list[int]]:
        """Context.decode, entered in the account if it succeeded."""
        result, indices = self.context.decode(rows)
        if result == DECODED:
            self.account.append([(row.sequence, len(row.tokens)) for row in rows])
            now = time.time()
            for row in rows:
                self.last_use[row.sequence] = now
        return result, indices

    def place(
        self, prompt: Int32Array, running: Sequence[RunningSequence], *, private: bool
    ) -> tuple[int, int, RunningSequence | None, int]:
        """A sequence for a new prompt, with as much of it as the cache already has.

        Returns (id, tokens in it, source, shared): when a running sequence is still
        computing a longer common prefix, it is the source and the prefix has ``shared``
        tokens. Only to be called while has_room_for_a_sequence.
        """
        ids = [sequence.id for sequence in running]
        if private:
            return self._take_id(ids), 0, None, 0
        cached, kept = self.cached.longest_match(prompt)
        # At least one token must be computed: its logits choose the next one.
        kept = min(kept, len(prompt) - 1)
        source, shared = _longest_running_match(prompt, running)
        if source is not None and shared > kept and self._can_share(shared, source.length):
            return self._take_id(ids), 0, source, shared
        from_host = self._bring_back(prompt, kept, ids)
        if from_host is not None:
            return *from_host, None, 0
        if cached is not None and cached.id not in self.cached:
            cached = None
        if cached is None or not self._is_usable(cached.id, kept, len(cached.tokens)):
            return self._take_id(ids), 0, None, 0
        is_last = not self.free and len(self.cached) == 1
        if is_last or self._should_continue(kept, len(cached.tokens)):
            self.cached.remove(cached.id)
            self.cut(cached.id, kept)
            self._count_hit(kept)
            return cached.id, kept, None, 0
        can_share = self._can_share(kept, len(cached.tokens))
        inherited = self._inherit(prompt, kept if can_share else 1)
        if inherited is not None:
            return *inherited, None, 0
        if not can_share:
            return self._take_id(ids), 0, None, 0
        target = self._take_id(ids, but=cached.id)
        self.copy(cached.id, target, kept)
        self.cached.touch(cached.id)
        self._count_hit(kept)
        return target, kept, None, 0

    def _inherit(self, prompt: Int32Array, least: int) -> tuple[int, int] | None:
        """(id, tokens in it) of the sequence that has to go, when ``least`` of them fit.

        What begins alike, such as a chat template's system prompt, is not computed again.
        """
        victim = self.cached.least_recently_used()
        if self.free or self.context.unified or victim is None:
            return None
        kept = min(common_prefix(victim.tokens, prompt), len(prompt) - 1)
        if kept < least or not self._is_usable(victim.id, kept, len(victim.tokens)):
            return None
        self._give_up(victim)
        self.cut(victim.id, kept)
        self._count_hit(kept)
        return victim.id, kept

    def _bring_back(
        self, prompt: Int32Array, kept: int, running: Sequence[int]
    ) -> tuple[int, int] | None:
        """(id, tokens in it) when the host's memory has more of the prompt than ``kept``."""
        held, most = self.host.longest_match(prompt)
        most = min(most, len(prompt) - 1)
        if held is None or most < kept + _WORTH_THE_HOST:
            return None
        length = len(held.tokens)
        if self._is_recurrent and most < length:
            return None
        target = self._take_id(running)
        self.make_room(length)
        if not self.context.is_settled(target) or self.account.free < length:
            self.release(target)
            return None
        if not (self._put(target, (length, held.state)) and self._is_usable(target, most, length)):
            self.release(target)
            return None
        self.host.used(held, is_over=self._should_continue(most, length))
        self.cut(target, most)
        self._count_hit(most)
        self.host_hits += 1
        return target, most

    def share(self, source: RunningSequence, target: int, keep: int) -> int:
        """Give a running sequence's first ``keep`` tokens to another one; how many it took."""
        computed = source.computed
        if not (self._can_share(keep, computed) and self._is_usable(source.id, keep, computed)):
            return 0
        self.copy(source.id, target, keep)
        self._count_hit(keep)
        return keep

    def retain(self, sequence: int, tokens: Int32Array) -> None:
        """A running sequence is over and stays as prefix cache."""
        if len(tokens):
            self.cached.add(sequence, tokens.copy())
        else:
            self.release(sequence)

    def release(self, sequence: int) -> None:
        """A running sequence is over; its cells are free."""
        self.cut(sequence, 0)
        bisect.insort(self.free, sequence)

    def make_room(self, cells: int) -> None:
        """Evict cached sequences, least recently used first, until so many cells are free."""
        while self.account.free < cells and self._evict():
            pass

    def evict_all(self) -> None:
        while self._evict():
            pass

    def copy(self, source: int, target: int, keep: int) -> None:
        through_host = self._is_copied_through_host(self.account.length(source))
        if through_host and self._put(target, self._content(source)):
            self.cut(target, keep)
        else:
            self.context.copy(source, target, keep)
            self.account.copy(source, target, keep)
        self.last_use[source] = self.last_use[target] = time.time()

    def cut(self, sequence: int, keep: int) -> None:
        if self.account.length(sequence) > keep:
            self.context.cut(sequence, keep)
            self.account.cut(sequence, keep)

    @property
    def cell_bytes(self) -> float:
        """Bytes of one cell over all layers; 0 where llama.cpp did not say."""
        return (self.context.kv_bytes or 0) / self.context.cells

    @property
    def can_exchange(self) -> bool:
        """Whether sequences can change places now; in Unified a place means nothing."""
        context = self.context
        return not (context.unified or self._is_recurrent or context.has_pending_copies)

    def exchange(self, running: int, other: int) -> bool:
        """A running sequence changes places with a free or cached one, cell for cell.

        False when llama.cpp could not put the running one back: then it is empty.
        """
        kept = self._content(running)
        if other in self.cached:
            moved = self._content(other)
            self.cached.move(other, running)
            if not self._put(running, moved):
                self.cached.remove(running)
                self.release(running)
        else:
            self.cut(running, 0)
            self.free.remove(other)
            bisect.insort(self.free, running)
        last_use = self.last_use
        last_use[running], last_use[other] = last_use[other], last_use[running]
        return self._put(other, kept)

    def _is_copied_through_host(self, length: int) -> bool:
        """Whether so many cells are less to move than the whole stream, as llama.cpp would.

        Of a sliding window's cache only the last window would come over, and from a GPU the
        host is far away.
        """
        if self._sliding_window or self._is_on_gpu or not self.can_exchange:
            return False
        return 2 * length < self.context.cells_per_sequence

    def _content(self, sequence: int) -> tuple[int, State | None]:
        length = self.account.length(sequence)
        return length, self.context.save(sequence) if length else None

    def _put(self, sequence: int, content: tuple[int, State | None]) -> bool:
        length, state = content
        if state is None:
            self.cut(sequence, 0)
            return True
        if not self.context.restore(sequence, state):
            self.account.cut(sequence, 0)
            return False
        self.account.restore(sequence, length)
        return True

    def _count_hit(self, tokens: int) -> None:
        self.prefix_hits += 1
        self.cells_saved += tokens

    def _take_id(self, running: Sequence[int], *, but: int | None = None) -> int:
        if not self.free and not self._evict(but=but):
            raise RuntimeError("Every sequence is running.")
        taken = best_id(self.free, running)
        self.free.remove(taken)
        return taken

    def _evict(self, *, but: int | None = None) -> bool:
        victim = self.cached.least_recently_used(but=but)
        if victim is None:
            return False
        self._give_up(victim)
        self.release(victim.id)
        return True

    def _give_up(self, victim: CachedSequence) -> None:
        """It has to go, perhaps into the host's memory; what of it stays is the caller's choice."""
        self.cached.remove(victim.id)
        self._save_to_host(victim)
        self.evictions += 1

    def _save_to_host(self, victim: CachedSequence) -> None:
        if not self.host.limit or len(victim.tokens) < _WORTH_THE_HOST:
            return
        context = self.context
        if context.is_settled(victim.id) and self.host.has_room_for(
            victim.tokens, context.size_of(victim.id)
        ):
            self.host.add(victim.tokens, context.save(victim.id))

    def _should_continue(self, kept: int, length: int) -> bool:
        """Whether to take the cached sequence itself rather than a copy of its beginning.

        A later turn of the same conversation differs in its last tokens at most.
        """
        if self._is_recurrent:
            return kept == length
        return length - kept <= max(_SAME_TAIL, length // _SAME_TAIL)

    def _can_share(self, keep: int, length: int) -> bool:
        """Whether ``keep`` of a sequence's ``length`` tokens are copied faster than computed."""
        if keep <= 0 or self._is_recurrent:
            return False
        if self.context.unified:
            return True
        if self._is_copied_through_host(length):
            return keep >= max(_WORTH_THE_HOST, length // _CELLS_MOVED_FOR_A_TOKEN)
        return keep >= self.context.cells_per_sequence * _WORTH_A_COPY

    def _is_usable(self, sequence: int, keep: int, length: int) -> bool:
        if keep <= 0 or (self._is_recurrent and keep < length):
            return False
        if not self._sliding_window:
            return True
        # Cells that left the window may have been overwritten; those that keep looks at are needed.
        lowest, _ = self.context.position_range(sequence)
        return 0 <= lowest <= max(keep - self._sliding_window + 1, 0)


def _longest_running_match(
    prompt: Int32Array, running: Sequence[RunningSequence]
) -> tuple[RunningSequence | None, int]:
    best: RunningSequence | None = None
    most = 0
    for sequence in running:
        if sequence.is_private or sequence.length <= most:
            continue
        length = min(common_prefix(sequence.tokens, prompt), len(prompt) - 1)
        if length > most:
            best, most = sequence, length
    return best, most
