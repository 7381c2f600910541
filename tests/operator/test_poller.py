from __future__ import annotations

import asyncio

import pytest

from llama_operator import poller as poller_module
from llama_operator.names import Key, Manifest
from llama_operator.pods import Pod, read_pod
from llama_operator.poller import Poller
from llama_operator.runtime_status import Reading, Unknown
from tests.operator.objects import a_pod, a_resource, a_runtime, ready, running, terminating

KEY = Key("default", "chat")
RESOURCE = a_resource()


def as_pod(manifest: Manifest) -> Pod:
    pod = read_pod("chat", manifest)
    assert pod is not None
    return pod


POD = as_pod(ready(a_pod(RESOURCE, 0)))


class Runtime:
    """Answers in the order given, then the last one for ever."""

    def __init__(self, *answers: Reading) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.turn = asyncio.Condition()

    async def ask(self, ip: str) -> Reading:
        self.asked.append(ip)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        async with self.turn:
            self.turn.notify_all()
        return answer

    async def was_asked(self, times: int) -> None:
        async with self.turn:
            await self.turn.wait_for(lambda: len(self.asked) >= times)
        await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poller_module, "READY_SECONDS", 0.001)
    monkeypatch.setattr(poller_module, "NOT_READY_SECONDS", 0.001)


@pytest.fixture
def changed() -> list[Key]:
    return []


async def test_an_answer_is_told_when_it_differs_from_the_last(changed: list[Key]) -> None:
    runtime = Runtime(a_runtime(state="Loading"), a_runtime(state="Loading"), a_runtime())
    poller = Poller(runtime.ask, changed.append)

    poller.watch(KEY, POD)
    await runtime.was_asked(6)
    poller.close()

    assert changed == [KEY, KEY]
    assert set(runtime.asked) == {"10.0.0.1"}


async def test_one_silence_is_forgiven_and_three_are_not(changed: list[Key]) -> None:
    silent = Unknown.NO_ANSWER
    runtime = Runtime(a_runtime(), silent, silent, a_runtime(), silent)
    poller = Poller(runtime.ask, changed.append)
    poller.watch(KEY, POD)

    await runtime.was_asked(6)
    assert poller.readings[POD.uid] == a_runtime()
    await runtime.was_asked(8)
    assert poller.readings[POD.uid] is silent
    poller.close()

    assert changed == [KEY, KEY]


async def test_a_runtime_that_never_answered_is_unknown_at_once(changed: list[Key]) -> None:
    runtime = Runtime(Unknown.NO_ANSWER)
    poller = Poller(runtime.ask, changed.append)
    assert POD.uid not in poller.readings

    poller.watch(KEY, POD)
    await runtime.was_asked(1)

    assert poller.readings[POD.uid] is Unknown.NO_ANSWER
    poller.close()


@pytest.mark.parametrize("end", [terminating, lambda pod: a_pod(RESOURCE, 0)])
async def test_a_pod_that_does_not_run_is_not_asked(end: object, changed: list[Key]) -> None:
    assert callable(end)
    runtime = Runtime(a_runtime())
    poller = Poller(runtime.ask, changed.append)
    poller.watch(KEY, POD)
    await runtime.was_asked(1)

    poller.watch(KEY, as_pod(end(ready(a_pod(RESOURCE, 0)))))
    asked = len(runtime.asked)
    await asyncio.sleep(0.02)

    assert len(runtime.asked) == asked
    assert POD.uid not in poller.readings


async def test_a_pod_that_gets_ready_is_asked_at_once(
    monkeypatch: pytest.MonkeyPatch, changed: list[Key]
) -> None:
    monkeypatch.setattr(poller_module, "NOT_READY_SECONDS", 3600)
    monkeypatch.setattr(poller_module, "READY_SECONDS", 3600)
    runtime = Runtime(a_runtime())
    poller = Poller(runtime.ask, changed.append)
    poller.watch(KEY, as_pod(running(a_pod(RESOURCE, 0))))
    await runtime.was_asked(1)

    poller.watch(KEY, POD)
    await runtime.was_asked(2)
    poller.close()
