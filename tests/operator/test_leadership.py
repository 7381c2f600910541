"""Candidates for one lease on a simulated API server, in virtual time."""

from __future__ import annotations

import asyncio
import copy
import itertools
import logging
import selectors
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llama_operator import lease
from llama_operator.kube import ApiException, Kind
from llama_operator.leadership import Leadership, NotLeading
from llama_operator.names import Key, Manifest

KEY = Key("llama-system", "operator")


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its clock jumps to the next thing that is due instead of waiting for it."""

    def __init__(self) -> None:
        self._now = 0.0
        loop = self

        class Jump(selectors.SelectSelector):
            def select(self, timeout: float | None = None) -> Any:
                loop._now += timeout or 0.0
                return super().select(0)

        super().__init__(Jump())

    def time(self) -> float:
        return self._now


class Server:
    """One lease with optimistic locking. A request takes a time before and after it counts."""

    def __init__(self, delays: Iterator[float]) -> None:
        self._delays = delays
        self._version = 0
        self.lease: Manifest | None = None
        self.status = 0
        """What every request is refused with; 0 for none."""

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest:
        await asyncio.sleep(next(self._delays))
        return await self._answer(404 if self.lease is None else 0)

    async def create(self, kind: Kind, manifest: Manifest) -> Manifest:
        await asyncio.sleep(next(self._delays))
        return await self._answer(409 if self.lease is not None else 0, manifest)

    async def replace(self, kind: Kind, manifest: Manifest) -> Manifest:
        await asyncio.sleep(next(self._delays))
        if self.lease is None:
            return await self._answer(404)
        same = self.lease["metadata"]["resourceVersion"] == manifest["metadata"]["resourceVersion"]
        return await self._answer(0 if same else 409, manifest)

    async def _answer(self, refusal: int, manifest: Manifest | None = None) -> Manifest:
        if refusal := self.status or refusal:
            raise ApiException(refusal, "refused", "")
        if manifest is not None:
            self._version += 1
            self.lease = copy.deepcopy(manifest)
            self.lease["metadata"]["resourceVersion"] = str(self._version)
        answer = copy.deepcopy(self.lease)
        await asyncio.sleep(next(self._delays))
        assert answer is not None
        return answer


class World:
    """Candidates and their server."""

    def __init__(self, delays: Iterator[float] | None = None) -> None:
        self.server = Server(delays or itertools.repeat(0.01))
        self.candidates: dict[str, Leadership] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, name: str, pauses: Iterator[float] | None = None) -> None:
        """`pauses`: for how long the process is stopped at each of its waits."""
        loop = asyncio.get_running_loop()
        stops = pauses or itertools.repeat(0.0)

        async def sleep(seconds: float) -> None:
            await asyncio.sleep(seconds + next(stops))

        candidate = Leadership(self.server, KEY, name, clock=loop.time, sleep=sleep)  # type: ignore[arg-type]

        async def lead() -> None:
            await candidate.acquire()
            with suppress(NotLeading):
                await candidate.hold()

        self.candidates[name] = candidate
        self.tasks[name] = asyncio.create_task(lead())

    def leaders(self) -> list[str]:
        return [name for name, candidate in self.candidates.items() if candidate.leading]

    async def until(self, true: Callable[[], bool], seconds: float = 20) -> None:
        """Wait for it; never do two lead meanwhile."""
        end = asyncio.get_running_loop().time() + seconds
        while not true():
            assert asyncio.get_running_loop().time() < end, self.leaders()
            assert len(self.leaders()) <= 1
            await asyncio.sleep(0.05)

    async def close(self) -> None:
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)


def simulate(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(scenario())


def test_one_of_two_leads_and_the_other_follows_when_it_stops() -> None:
    async def scenario() -> None:
        world = World()
        for name in ("a", "b"):
            world.start(name)
        await world.until(lambda: world.leaders() == ["a"], 1)
        await world.until(lambda: world.candidates["b"].standby, 5)

        world.tasks["a"].cancel()

        await world.until(lambda: world.leaders() == ["b"], 18)
        assert world.server.lease is not None
        assert world.server.lease["spec"]["leaseTransitions"] == 1
        await world.close()

    simulate(scenario)


def test_a_lease_that_is_given_back_is_taken_at_the_next_look() -> None:
    async def scenario() -> None:
        world = World()
        for name in ("a", "b"):
            world.start(name)
        await world.until(lambda: world.candidates["b"].standby, 5)

        world.tasks["a"].cancel()
        await world.candidates["a"].release()

        await world.until(lambda: world.leaders() == ["b"], lease.RETRY_SECONDS + 1)
        await world.close()

    simulate(scenario)


@pytest.mark.parametrize("status", [500, 403, 429])
def test_a_leader_that_cannot_renew_stops_before_another_may_begin(status: int) -> None:
    async def scenario() -> None:
        world = World()
        world.start("a")
        await world.until(lambda: world.leaders() == ["a"], 1)
        world.server.status = status

        await world.until(world.tasks["a"].done, lease.DEADLINE_SECONDS + 1)

        with pytest.raises(NotLeading, match="another operator may lead"):
            world.candidates["a"].seconds_left()
        world.start("b")
        await asyncio.sleep(60)
        assert not world.candidates["b"].standby
        world.server.status = 0
        await world.until(lambda: world.leaders() == ["b"], 20)
        await world.close()

    simulate(scenario)


def test_a_leader_whose_lease_was_edited_or_deleted_keeps_it() -> None:
    async def scenario() -> None:
        world = World()
        for name in ("a", "b"):
            world.start(name)
        await world.until(lambda: world.candidates["b"].standby, 5)
        assert world.server.lease is not None
        world.server.lease["metadata"]["resourceVersion"] = "edited"

        await asyncio.sleep(30)
        assert world.leaders() == ["a"]

        world.server.lease = None
        await world.until(lambda: world.server.lease is not None, 10)
        assert world.leaders() == ["a"]
        await world.close()

    simulate(scenario)


def test_a_leader_that_slept_past_its_lease_finds_it_taken() -> None:
    async def scenario() -> None:
        world = World()
        world.start("a", itertools.chain([0.0, 60.0], itertools.repeat(0.0)))
        await world.until(lambda: world.leaders() == ["a"], 1)
        world.start("b")
        await world.until(lambda: world.leaders() == ["b"], 25)

        await world.until(world.tasks["a"].done, 120)

        assert world.leaders() == ["b"]
        await world.close()

    simulate(scenario)


@settings(max_examples=60)
@given(
    delays=st.lists(st.sampled_from([0.0, 0.02, 0.5, 2.0, 4.0]), min_size=1, max_size=30),
    pauses=st.lists(st.sampled_from([0.0, 0.0, 1.0, 12.0, 40.0]), min_size=1, max_size=12),
    deleted_at=st.none() | st.floats(20, 60),
)
def test_never_do_two_lead(
    delays: list[float], pauses: list[float], deleted_at: float | None
) -> None:
    """Whatever is slow, stopped or lost: a request that timed out may have counted.

    A process that begins to look right after the lease was deleted cannot know that there was
    one: here all have seen it before.
    """

    async def scenario() -> None:
        world = World(itertools.cycle(delays))
        loop = asyncio.get_running_loop()
        for index, name in enumerate(("a", "b", "c")):
            world.start(name, itertools.cycle(pauses[index:] + pauses[:index]))
        informed: set[str] = set()
        deletion = deleted_at
        while loop.time() < 120:
            assert len(world.leaders()) <= 1
            informed |= {*world.leaders()}
            informed |= {name for name, other in world.candidates.items() if other.standby}
            if deletion is not None and loop.time() >= deletion and len(informed) == 3:
                world.server.lease = deletion = None
            for name, task in list(world.tasks.items()):
                if task.done() and deleted_at is None:
                    del world.tasks[name]
                    world.start(f"{name}'")
            await asyncio.sleep(0.25)
        await world.close()

    logging.disable(logging.WARNING)
    try:
        simulate(scenario)
    finally:
        logging.disable(logging.NOTSET)
