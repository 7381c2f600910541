"""What the next llama_decode computes."""

from __future__ import annotations

from collections.abc import Sequence

from llama_runtime.engine.batch import Row
from llama_runtime.engine.sequence import RunningSequence


def plan_step(
    running: Sequence[RunningSequence], batch_size: int
) -> list[tuple[RunningSequence, Row]]:
    """The rows of one batch, in ascending order of their sequences.

    ``running`` is in order of arrival. Sequences that generate get their token first.
    What is left of the batch goes to prompts: half of it at least to the oldest one, so
    that it never starves, the rest to the shortest ones, so that they never wait long.
    A suspect, a sequence that was in a batch that failed, is computed alone.
    """
    ready = [sequence for sequence in running if sequence.source is None]
    suspect = next((sequence for sequence in ready if sequence.is_suspect), None)
    if suspect is not None:
        ready = [suspect]
    counts: dict[int, int] = {sequence.id: 1 for sequence in ready if sequence.remaining == 1}
    prompts = [sequence for sequence in ready if sequence.remaining > 1]
    left = batch_size - len(counts)
    if prompts and left > 0:
        oldest, others = prompts[0], sorted(prompts[1:], key=lambda prompt: prompt.remaining)
        reserved = min(oldest.remaining, left - left // 2)
        left -= reserved
        for sequence in others:
            count = min(sequence.remaining, left)
            if count:
                counts[sequence.id] = count
                left -= count
        counts[oldest.id] = min(oldest.remaining, reserved + left)
    planned = sorted(
        (sequence for sequence in ready if sequence.id in counts), key=lambda item: item.id
    )
    return [(sequence, _row(sequence, counts[sequence.id])) for sequence in planned]


def _row(sequence: RunningSequence, count: int) -> Row:
    begin, end = sequence.computed, sequence.computed + count
    return Row(sequence.id, begin, sequence.tokens[begin:end], end == sequence.length)
