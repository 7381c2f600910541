"""Which ids the running sequences should have: consecutive ones.

In the Partitioned layout llama.cpp puts only consecutive sequences into one micro batch
(llama_batch_allocr::split_equal, src/llama-batch.cpp): every gap between the ids of a batch
costs another one, which reads all the weights again.
"""

from __future__ import annotations

from collections.abc import Collection


def groups(ids: Collection[int]) -> int:
    """How many runs of consecutive ids there are."""
    present = set(ids)
    return sum(one - 1 not in present for one in present)


def best_id(available: Collection[int], running: Collection[int]) -> int:
    """The available id that leaves the running ones in the fewest groups; the lowest of these."""
    present = set(running)
    return min(available, key=lambda one: (-(one - 1 in present) - (one + 1 in present), one))


def moves(running: Collection[int], count: int) -> list[tuple[int, int]]:
    """From where to where running sequences change so that their ids are consecutive.

    ``count`` is the number of ids there are. As few as possible move.
    """
    ids = sorted(running)
    first = max(
        range(count - len(ids) + 1),
        key=lambda start: (sum(start <= one < start + len(ids) for one in ids), -start),
    )
    window = range(first, first + len(ids))
    outside = [one for one in ids if one not in window]
    return list(zip(outside, sorted(set(window) - set(ids)), strict=True))
