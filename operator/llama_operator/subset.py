"""Whether a live object still has everything that we set."""

from __future__ import annotations


def contains(live: object, wanted: object) -> bool:
    """Every field of `wanted` is in `live` with the same value.

    What others added is no difference: other keys of a mapping, other items of a list.
    """
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(
            name in live and contains(live[name], value) for name, value in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(live, list) and all(
            any(contains(item, value) for item in live) for value in wanted
        )
    return live == wanted
