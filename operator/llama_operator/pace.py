"""How often a status may be written: a pod that flaps all day must not become a storm of writes."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from llama_operator.names import Key

BURST: Final = 20
EVERY: Final = timedelta(seconds=10)
"""Writes of one status: these at once, as a rollout needs them, then one in this time; 380 in the
worst hour."""


class Pace:
    """The writes of every LlamaDeployment's status, as token buckets."""

    def __init__(self) -> None:
        self._full: dict[Key, datetime] = {}
        """When each bucket is full again."""

        self._last: dict[Key, datetime] = {}

    def due(self, key: Key, wait: timedelta, now: datetime) -> datetime:
        """When the next write may be made that is to come `wait` after the last one."""
        if now < self._last.get(
            key, now
        ):  # The clock went back: what it said before is no measure.
            self.forget(key)
        earliest = self._full.get(key, now) - (BURST - 1) * EVERY
        last = self._last.get(key)
        return max(earliest, last + wait if last is not None else now)

    def written(self, key: Key, now: datetime) -> None:
        """A write was made."""
        self._full[key] = max(self._full.get(key, now), now) + EVERY
        self._last[key] = now

    def forget(self, key: Key) -> None:
        """The LlamaDeployment is gone."""
        self._full.pop(key, None)
        self._last.pop(key, None)
