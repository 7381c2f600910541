"""A prefix that one running sequence computes and others wait for."""

from __future__ import annotations

from collections.abc import Sequence

from llama_runtime.engine.kv_cache import KVCache
from llama_runtime.engine.prefix_cache import common_prefix
from llama_runtime.engine.sequence import RunningSequence


def share_computed_prefixes(running: Sequence[RunningSequence], kv: KVCache) -> None:
    """Let those go on whose prefix is there by now."""
    for sequence in running:
        source = sequence.source
        if source is not None and source.computed >= sequence.shared:
            _take_over(sequence, source, kv)


def hand_over_prefix(
    leaving: RunningSequence, running: Sequence[RunningSequence], kv: KVCache
) -> None:
    """A sequence leaves that others may wait for: they take what there is.

    If that is not all, the oldest of them computes the rest, and the others wait for it.
    """
    waiting = [sequence for sequence in running if sequence.source is leaving]
    heir: RunningSequence | None = None
    for sequence in waiting:
        if leaving.computed >= sequence.shared:
            _take_over(sequence, leaving, kv)
        elif heir is None:
            heir = sequence
            _take_over(sequence, leaving, kv)
        else:
            sequence.source = heir
            sequence.shared = min(common_prefix(heir.tokens, sequence.tokens), sequence.length - 1)


def _take_over(sequence: RunningSequence, source: RunningSequence, kv: KVCache) -> None:
    sequence.source = None
    taken = kv.share(source, sequence.id, min(sequence.shared, source.computed))
    sequence.computed = sequence.request.cached_tokens = taken
