"""Two operators and one Lease: one acts, the other takes over, never do both write."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from llama_operator import lease
from tests.operator.integration.api import Api, eventually
from tests.operator.integration.deployment import Deployment
from tests.operator.integration.process import OperatorProcess, grant
from tests.operator.integration.proxy import Proxy

LEASE = "llama-operator"


class Replica:
    """One operator and the proxy that notes what it asks for."""

    def __init__(self, process: OperatorProcess, proxy: Proxy) -> None:
        self.process = process
        self.proxy = proxy

    def writes(self) -> int:
        return len(self.proxy.writes())


@pytest.fixture
def replicas(alone: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Replica]]:
    token = grant(alone)
    with ExitStack() as stack:
        found = []
        for _ in range(2):
            proxy = stack.enter_context(Proxy(alone))
            directory = tmp_path_factory.mktemp("replica")
            process = OperatorProcess(alone, directory, token, server=proxy.url, lease=LEASE)
            found.append(Replica(process, proxy))
            process.start()
            process.wait_ready()
        yield found
        for replica in found:
            if replica.process.running:
                replica.process.kill()


def transitions(api: Api) -> int:
    found = api.get("leases", LEASE)
    assert found is not None
    return int(found["spec"]["leaseTransitions"])


def test_one_acts_and_the_other_takes_over(alone: Api, replicas: list[Replica]) -> None:
    chat = Deployment(alone)
    first, second = replicas
    eventually(lambda: first.process.leading)
    assert not second.process.leading
    assert second.process.health() == 200

    # A follower is Ready and acts on nothing.
    chat.bring_up(replicas=1)
    assert first.writes() > 0
    assert second.writes() == 0

    # SIGKILL: nobody gives the lease back.
    first.process.kill()
    killed = time.monotonic()
    chat.change(replicas=2)
    eventually(lambda: "chat-1" in chat.names())
    print(f"The other operator acted {time.monotonic() - killed:.1f} s after SIGKILL")
    assert second.process.leading
    assert transitions(alone) == 1

    # SIGTERM: the lease is given back, and taken at the next look.
    first.process.start()
    first.process.wait_ready()
    assert not first.process.leading
    assert second.process.stop() == 0
    eventually(lambda: first.process.leading)
    chat.change(replicas=3)
    eventually(lambda: "chat-2" in chat.names())
    assert transitions(alone) == 2


def test_a_leader_that_slept_past_its_lease_writes_nothing(
    alone: Api, replicas: list[Replica]
) -> None:
    chat = Deployment(alone)
    first, second = replicas
    eventually(lambda: first.process.leading)
    chat.bring_up(replicas=1)
    eventually(lambda: not second.process.leading)

    first.process.pause()
    # Something to do for whoever wakes up, and for the one who is awake.
    chat.change(replicas=2)
    alone.delete("services", "chat")
    eventually(lambda: second.process.leading)
    eventually(lambda: "chat-1" in chat.names() and alone.get("services", "chat") is not None)
    chat.change(replicas=3)
    written = first.writes()
    first.process.wake()

    assert first.process.wait_ended() == 1
    assert first.writes() == written
    assert first.process.log.rstrip().endswith("in time: another operator may lead.")
    eventually(lambda: "chat-2" in chat.names())
    assert transitions(alone) == 1
    held = alone.get("leases", LEASE)
    assert held is not None
    assert held["spec"]["leaseDurationSeconds"] == lease.DURATION_SECONDS

    # Started again, it follows.
    first.process.start()
    first.process.wait_ready()
    assert not first.process.leading
    assert first.writes() == written
