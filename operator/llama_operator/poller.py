"""Asks every running pod for its status again and again, and tells when it has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from llama_operator.names import Key
from llama_operator.pods import Pod
from llama_operator.runtime_status import Reading, Unknown

READY_SECONDS = 30.0
NOT_READY_SECONDS = 5.0
PATIENCE = 3
"""Questions in a row without an answer before the last answer counts no more."""

Ask = Callable[[str], Awaitable[Reading]]
Sleep = Callable[[float], Awaitable[None]]


@dataclass(slots=True)
class _Poll:
    key: Key
    ip: str
    ready: bool
    task: asyncio.Task[None] | None = None
    silences: int = 0
    hurry: asyncio.Event = field(default_factory=asyncio.Event)


class Poller:
    """The last status of the runtime in every running pod."""

    def __init__(self, ask: Ask, changed: Callable[[Key], None]) -> None:
        """`ask` gets an address; `changed` hears of every answer that differs from the last."""
        self._ask = ask
        self._changed = changed
        self._polls: dict[str, _Poll] = {}
        self._readings: dict[str, Reading] = {}

    @property
    def readings(self) -> Mapping[str, Reading]:
        """By the pod's UID; a pod that was not asked yet is absent."""
        return self._readings

    def watch(self, key: Key, pod: Pod) -> None:
        """Begin, go on or stop asking the pod, as its state says."""
        if not pod.running or pod.ip is None:
            self.stop(pod.uid)
            return
        poll = self._polls.get(pod.uid)
        if poll is not None and poll.ip == pod.ip:
            if poll.ready != pod.ready:
                poll.ready = pod.ready
                poll.hurry.set()
            return
        self.stop(pod.uid)
        poll = self._polls[pod.uid] = _Poll(key, pod.ip, pod.ready)
        poll.task = asyncio.create_task(self._run(pod.uid, poll), name=f"status of {pod.name}")

    def stop(self, uid: str) -> None:
        """Ask the pod no more."""
        poll = self._polls.pop(uid, None)
        self._readings.pop(uid, None)
        if poll is not None and poll.task is not None:
            poll.task.cancel()

    def close(self) -> None:
        """Ask no pod any more."""
        for uid in list(self._polls):
            self.stop(uid)

    async def _run(self, uid: str, poll: _Poll) -> None:
        while True:
            reading = await self._ask(poll.ip)
            self._take(uid, poll, reading)
            wait = READY_SECONDS if poll.ready else NOT_READY_SECONDS
            try:
                await asyncio.wait_for(poll.hurry.wait(), wait)
            except TimeoutError:
                continue
            poll.hurry.clear()

    def _take(self, uid: str, poll: _Poll, reading: Reading) -> None:
        before = self._readings.get(uid, Unknown.NOT_ASKED)
        poll.silences = poll.silences + 1 if reading is Unknown.NO_ANSWER else 0
        answered_before = not isinstance(before, Unknown)
        if reading is Unknown.NO_ANSWER and answered_before and poll.silences < PATIENCE:
            return
        self._readings[uid] = reading
        if reading != before:
            self._changed(poll.key)
