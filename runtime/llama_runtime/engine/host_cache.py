"""Evicted sequences in the host's memory: brought back faster than computed again."""

from __future__ import annotations

from dataclasses import dataclass

from llama_runtime.engine.batch import Int32Array
from llama_runtime.engine.context import State
from llama_runtime.engine.prefix_cache import common_prefix


@dataclass(frozen=True, slots=True, eq=False)
class HostSequence:
    """Tokens and what Context.save gave for them."""

    tokens: Int32Array
    state: State

    @property
    def bytes(self) -> int:
        return int(self.tokens.nbytes + self.state.nbytes)


class HostCache:
    """At most ``limit`` bytes of sequences, from the least to the most recently used one.

    No sequence in it is the beginning of another one.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self.evictions = 0
        self._sequences: dict[int, HostSequence] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._sequences)

    def has_room_for(self, tokens: Int32Array, state_bytes: int) -> bool:
        """Whether it is worth saving: it fits, and nothing here begins with it."""
        if tokens.nbytes + state_bytes > self.limit:
            return False
        for key, held in self._sequences.items():
            if common_prefix(held.tokens, tokens) == len(tokens):
                self._touch(key)
                return False
        return True

    def add(self, tokens: Int32Array, state: State) -> None:
        """Keep it, in the place of its own beginnings and of the least recently used ones."""
        added = HostSequence(tokens, state)
        for key, held in list(self._sequences.items()):
            if common_prefix(held.tokens, tokens) == len(held.tokens):
                self._drop(key)
        while self._sequences and self.bytes + added.bytes > self.limit:
            self._drop(next(iter(self._sequences)))
            self.evictions += 1
        self._sequences[self._next] = added
        self._next += 1
        self.bytes += added.bytes

    def longest_match(self, prompt: Int32Array) -> tuple[HostSequence | None, int]:
        """The sequence that shares most with the prompt, and how many tokens that is."""
        best: HostSequence | None = None
        most = 0
        for held in self._sequences.values():
            length = common_prefix(held.tokens, prompt) if len(held.tokens) > most else 0
            if length > most:
                best, most = held, length
        return best, most

    def used(self, sequence: HostSequence, *, is_over: bool) -> None:
        """It was brought back: the last one to go; ``is_over``: the context has it from now on."""
        for key, held in self._sequences.items():
            if held is sequence:
                if is_over:
                    self._drop(key)
                else:
                    self._touch(key)
                return

    def _touch(self, key: int) -> None:
        self._sequences[key] = self._sequences.pop(key)

    def _drop(self, key: int) -> None:
        self.bytes -= self._sequences.pop(key).bytes
