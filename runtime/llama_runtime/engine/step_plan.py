"""What the next llama_decode computes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from llama_runtime.engine.batch import Row
from llama_runtime.engine.sequence import RunningSequence
from llama_runtime.generation import Client

# Scored in a step, each token costs up to a millisecond of it beside llama.cpp's own work.
MOST_SCORED = 32


def plan_step(
    running: Sequence[RunningSequence],
    batch_size: int,
    outputs: int,
    crowders: Collection[Client] = (),
    crowders_limit: int = 0,
) -> list[tuple[RunningSequence, Row]]:
    """The rows of one batch, in ascending order of their sequences.

    ``running`` is in order of arrival. Sequences that generate get their token first.
    What is left of the batch goes to prompts: half of it in even parts to the clients, to
    the oldest prompt of each, so that nobody starves, the rest to the shortest prompts, so
    that they never wait long. ``crowders``, clients with more requests than their share, get
    ``crowders_limit`` tokens of it at most, so that steps are short for the others.
    A prompt that is scored needs logits at every token, and a batch has ``outputs`` of them,
    at least one for each sequence: what the others do not need is shared out evenly.
    A suspect, a sequence that was in a batch that failed, is computed alone.
    """
    ready = [sequence for sequence in running if sequence.source is None]
    suspect = next((sequence for sequence in ready if sequence.is_suspect), None)
    if suspect is not None:
        ready = [suspect]
    counts: dict[int, int] = {sequence.id: 1 for sequence in ready if sequence.remaining == 1}
    left = batch_size - len(counts)
    prompts = [sequence for sequence in ready if sequence.remaining > 1]
    if not prompts:
        return [
            (one, _row(one, 1)) for one in sorted(ready, key=lambda one: one.id) if one.id in counts
        ]
    useful = _useful(prompts, outputs - len(counts))
    crowding = [sequence for sequence in prompts if sequence.client in crowders]
    others = [sequence for sequence in prompts if sequence.client not in crowders]
    left -= _share_out(others, left, useful, counts)
    _share_out(crowding, min(left, crowders_limit), useful, counts)
    planned = sorted(
        (sequence for sequence in ready if sequence.id in counts), key=lambda item: item.id
    )
    return [(sequence, _row(sequence, counts[sequence.id])) for sequence in planned]


def _useful(prompts: Sequence[RunningSequence], outputs: int) -> dict[int, int]:
    """The most tokens of each prompt that one step can take; ``outputs`` are there for all."""
    scored = sum(sequence.scores is not None for sequence in prompts)
    # The last token of any prompt has an output.
    spare = min(outputs - (len(prompts) - scored), MOST_SCORED)
    part = max(spare // scored, 1) if scored else 0
    return {
        sequence.id: sequence.remaining
        if sequence.scores is None
        else min(sequence.remaining, part)
        for sequence in prompts
    }


def _share_out(
    prompts: Sequence[RunningSequence],
    room: int,
    useful: Mapping[int, int],
    counts: dict[int, int],
) -> int:
    """Give ``room`` tokens to prompts; how many they took."""
    left = room

    def give(sequence: RunningSequence, most: int) -> None:
        nonlocal left
        given = counts.get(sequence.id, 0)
        count = min(useful[sequence.id] - given, most, left)
        if count > 0:
            counts[sequence.id] = given + count
            left -= count

    oldest: dict[Client, RunningSequence] = {}
    for sequence in prompts:
        oldest.setdefault(sequence.client, sequence)
    half = room - room // 2
    # What one client does not need of its part goes to those who need more.
    for index, sequence in enumerate(sorted(oldest.values(), key=lambda one: useful[one.id])):
        part = -(-max(half - (room - left), 0) // (len(oldest) - index))
        give(sequence, part)
    for sequence in sorted(prompts, key=lambda one: useful[one.id]):
        give(sequence, left)
    return room - left


def _row(sequence: RunningSequence, count: int) -> Row:
    begin, end = sequence.computed, sequence.computed + count
    outputs = int(end == sequence.length)
    if sequence.scores is not None:
        outputs += sequence.scores.outputs(begin, end)
    return Row(sequence.id, begin, sequence.tokens[begin:end], outputs)
