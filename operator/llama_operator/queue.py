"""A queue of keys to look at: each waits once, and none is worked on twice at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

logger = logging.getLogger(__name__)

KeyT = TypeVar("KeyT")

FIRST_RETRY_SECONDS = 1.0
LONGEST_RETRY_SECONDS = 60.0


class Timer(Protocol):
    """A call that is to come."""

    def cancel(self) -> None: ...


CallLater = Callable[[float, Callable[[], None]], Timer]


class WorkQueue(Generic[KeyT]):
    """Keys in the order in which they came, without doubles.

    A key that is added while it is worked on is worked on once more afterwards. Work that
    raises is tried again after 1 s, 2 s, 4 s … 60 s, each shortened by up to a half at
    random, so that many keys do not come back together.
    """

    def __init__(
        self,
        work: Callable[[KeyT], Awaitable[float | None]],
        *,
        random: Callable[[], float],
        call_later: CallLater,
        depth_changed: Callable[[int], None] = lambda depth: None,
    ) -> None:
        """`work` gets a key and gives the seconds after which to look again, or None."""
        self._work = work
        self._random = random
        self._call_later = call_later
        self._depth_changed = depth_changed
        self._waiting: asyncio.Queue[KeyT] = asyncio.Queue()
        self._queued: set[KeyT] = set()
        self._working: set[KeyT] = set()
        self._again: set[KeyT] = set()
        self._failures: dict[KeyT, int] = {}
        self._timers: dict[KeyT, Timer] = {}

    def add(self, key: KeyT) -> None:
        """Have the key worked on as soon as there is a free worker."""
        self._cancel_timer(key)
        if key in self._working:
            self._again.add(key)
        elif key not in self._queued:
            self._queued.add(key)
            self._waiting.put_nowait(key)
            self._depth_changed(len(self._queued))

    async def run(self, workers: int) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(self._serve())

    async def _serve(self) -> None:
        while True:
            key = await self._waiting.get()
            self._queued.discard(key)
            self._depth_changed(len(self._queued))
            self._working.add(key)
            delay = await self._once(key)
            self._working.discard(key)
            if key in self._again:
                self._again.discard(key)
                self.add(key)
            elif delay is not None:
                self._add_later(key, delay)

    async def _once(self, key: KeyT) -> float | None:
        """Work on the key; the seconds after which it comes back."""
        try:
            delay = await self._work(key)
        except Exception:
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            longest = min(FIRST_RETRY_SECONDS * 2 ** min(failures - 1, 16), LONGEST_RETRY_SECONDS)
            delay = longest * (1 - self._random() / 2)
            logger.exception("Failed to reconcile %s; the next try is in %.1f s", key, delay)
        else:
            self._failures.pop(key, None)
        return delay

    def _add_later(self, key: KeyT, delay: float) -> None:
        self._cancel_timer(key)
        self._timers[key] = self._call_later(delay, lambda: self.add(key))

    def _cancel_timer(self, key: KeyT) -> None:
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
