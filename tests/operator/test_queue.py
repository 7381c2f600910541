from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from llama_operator.queue import WorkQueue


class Timers:
    """Calls that are to come, made when the test says so."""

    def __init__(self) -> None:
        self.delays: list[float] = []
        self._pending: list[FakeTimer] = []

    def call_later(self, delay: float, call: Callable[[], None]) -> FakeTimer:
        timer = FakeTimer(call)
        self.delays.append(delay)
        self._pending.append(timer)
        return timer

    @property
    def pending(self) -> int:
        return sum(not timer.cancelled for timer in self._pending)

    def fire(self) -> None:
        due, self._pending = self._pending, []
        for timer in due:
            if not timer.cancelled:
                timer.call()


class FakeTimer:
    def __init__(self, call: Callable[[], None]) -> None:
        self.call = call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


@asynccontextmanager
async def serving(
    work: Callable[[str], Awaitable[float | None]],
    timers: Timers | None = None,
    random: float = 0.0,
    workers: int = 2,
) -> AsyncIterator[WorkQueue[str]]:
    queue = WorkQueue(work, random=lambda: random, call_later=(timers or Timers()).call_later)
    task = asyncio.create_task(queue.run(workers))
    yield queue
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def idle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_key_waits_once() -> None:
    worked: list[str] = []

    async def work(key: str) -> None:
        worked.append(key)

    async with serving(work) as queue:
        for key in ("a", "b", "a", "a"):
            queue.add(key)
        await idle()

    assert worked == ["a", "b"]


async def test_a_key_that_is_worked_on_is_worked_on_once_more_and_never_twice_at_a_time() -> None:
    worked: list[str] = []
    running = 0
    go_on = asyncio.Event()

    async def work(key: str) -> None:
        nonlocal running
        running += 1
        assert running == 1
        worked.append(key)
        await go_on.wait()
        running -= 1

    async with serving(work) as queue:
        queue.add("a")
        await idle()
        queue.add("a")
        queue.add("a")
        await idle()
        assert worked == ["a"]
        go_on.set()
        await idle()

    assert worked == ["a", "a"]


async def test_different_keys_are_worked_on_at_the_same_time() -> None:
    started: list[str] = []

    async def work(key: str) -> None:
        started.append(key)
        await asyncio.Event().wait()

    async with serving(work, workers=2) as queue:
        for key in ("a", "b", "c"):
            queue.add(key)
        await idle()

    assert started == ["a", "b"]


async def test_failures_wait_longer_and_longer_and_are_forgotten_after_a_success() -> None:
    timers = Timers()
    failing = True

    async def work(key: str) -> None:
        if failing:
            raise OSError("no connection")

    async with serving(work, timers) as queue:
        queue.add("a")
        for _ in range(9):
            await idle()
            timers.fire()
        failing = False
        await idle()
        assert timers.pending == 0
        failing = True
        queue.add("a")
        await idle()

    assert timers.delays == [1, 2, 4, 8, 16, 32, 60, 60, 60, 1]


async def test_a_retry_is_shortened_at_random() -> None:
    timers = Timers()

    async def work(key: str) -> None:
        raise OSError("no connection")

    async with serving(work, timers, random=0.5) as queue:
        queue.add("a")
        await idle()

    assert timers.delays == [0.75]


async def test_work_may_ask_to_come_back() -> None:
    timers = Timers()
    delays: list[float | None] = [30.0, None]
    worked: list[str] = []

    async def work(key: str) -> float | None:
        worked.append(key)
        return delays.pop(0)

    async with serving(work, timers) as queue:
        queue.add("a")
        await idle()
        assert (worked, timers.delays) == (["a"], [30.0])
        timers.fire()
        await idle()

    assert worked == ["a", "a"]
    assert timers.pending == 0


async def test_a_key_that_comes_early_needs_no_timer_any_more() -> None:
    timers = Timers()

    async def work(key: str) -> float | None:
        return 30.0 if not timers.delays else None

    async with serving(work, timers) as queue:
        queue.add("a")
        await idle()
        queue.add("a")
        await idle()

    assert timers.pending == 0
