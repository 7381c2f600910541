"""Finished sequences that stay in the KV cache for the prompts to come."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from llama_runtime.engine.batch import Int32Array

_FIRST_LOOK = 64


def common_prefix(a: Int32Array, b: Int32Array) -> int:
    """Length of the longest common prefix."""
    shorter = min(len(a), len(b))
    # Most pairs differ early; those that don't are compared in one go.
    for end in (min(_FIRST_LOOK, shorter), shorter):
        differs = a[:end] != b[:end]
        if differs.any():
            return int(differs.argmax())
    return shorter


@dataclass(frozen=True, slots=True)
class CachedSequence:
    """Tokens whose keys and values lie in one sequence of the context."""

    id: int
    tokens: Int32Array


class PrefixCache:
    """Cached sequences from the least to the most recently used one."""

    def __init__(self) -> None:
        self._sequences: dict[int, CachedSequence] = {}

    def __len__(self) -> int:
        return len(self._sequences)

    def __iter__(self) -> Iterator[CachedSequence]:
        return iter(self._sequences.values())

    def add(self, sequence: int, tokens: Int32Array) -> None:
        self._sequences[sequence] = CachedSequence(sequence, tokens)

    def remove(self, sequence: int) -> None:
        del self._sequences[sequence]

    def move(self, sequence: int, target: int) -> None:
        """It lies in another sequence now, and is as recently used as before."""
        moved = CachedSequence(target, self._sequences[sequence].tokens)
        self._sequences = {
            target if one == sequence else one: moved if one == sequence else cached
            for one, cached in self._sequences.items()
        }

    def __contains__(self, sequence: int) -> bool:
        return sequence in self._sequences

    def touch(self, sequence: int) -> None:
        """It was just used: it is the last one to go."""
        self._sequences[sequence] = self._sequences.pop(sequence)

    def clear(self) -> None:
        self._sequences.clear()

    def longest_match(self, prompt: Int32Array) -> tuple[CachedSequence | None, int]:
        """The sequence that shares most with the prompt, and how many tokens that is."""
        best: CachedSequence | None = None
        most = 0
        for cached in self._sequences.values():
            # A match that is no longer than the best so far needs no full comparison.
            if len(cached.tokens) <= most:
                continue
            length = common_prefix(cached.tokens, prompt)
            if length > most:
                best, most = cached, length
        return best, most

    def least_recently_used(self, *, but: int | None = None) -> CachedSequence | None:
        return next((cached for cached in self if cached.id != but), None)
