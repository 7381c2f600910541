"""The API server, etcd and the way to them fail while the operator works."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.chaos.invariants import Watchman, check_end, check_gone
from tests.chaos.supervisor import Supervisor
from tests.operator.integration.api import Api, eventually
from tests.operator.integration.deployment import Deployment
from tests.operator.integration.kubelet import EagerKubelet
from tests.operator.integration.proxy import Proxy, Request
from tests.own_control_plane import ControlPlane

SHORT_AND_LONG = pytest.mark.parametrize(
    "seconds", [5, pytest.param(60, marks=pytest.mark.long)], ids=["short", "long"]
)


@SHORT_AND_LONG
def test_the_api_server_is_gone_for_a_while(
    plane: ControlPlane, operator: Supervisor, api: Api, chat: Deployment, seconds: int
) -> None:
    chat.create(replicas=2)
    watchman = Watchman(replicas=2)
    with EagerKubelet(api, watchman.saw):
        check_end(api, chat, 2, "llama-runtime:1")
    chat.change(image="llama-runtime:2")  # It stops in the middle of this.

    plane.signal("kube-apiserver", signal.SIGKILL)
    time.sleep(seconds)
    plane.up()

    with EagerKubelet(api, watchman.saw):
        check_end(api, chat, 2, "llama-runtime:2")
    assert watchman.faults == []
    chat.delete()
    check_gone(api)


@pytest.mark.parametrize(
    "seconds", [5, pytest.param(30, marks=pytest.mark.long)], ids=["short", "long"]
)
def test_etcd_stands_still_for_a_while(
    plane: ControlPlane, operator: Supervisor, api: Api, chat: Deployment, seconds: int
) -> None:
    chat.create(replicas=2)
    watchman = Watchman(replicas=2)
    with EagerKubelet(api, watchman.saw):
        check_end(api, chat, 2, "llama-runtime:1")
    chat.change(image="llama-runtime:2")

    plane.signal("etcd", signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        plane.signal("etcd", signal.SIGCONT)

    eventually(lambda: plane.cluster.run("get", "--raw=/readyz").returncode == 0)
    with EagerKubelet(api, watchman.saw):
        check_end(api, chat, 2, "llama-runtime:2")
    assert watchman.faults == []
    chat.delete()
    check_gone(api)


STATUSES = [pytest.param(status, marks=pytest.mark.long) for status in (409, 429, 500)]


@pytest.mark.parametrize("status", [0, *STATUSES], ids=["mixed", "409", "429", "500"])
def test_requests_are_refused_and_watches_are_cut(
    operator: Supervisor, proxy: Proxy, api: Api, chat: Deployment, status: int
) -> None:
    chance = random.Random(status)

    def refuse(request: Request) -> int:
        """A third of everything; 409 is no answer to a question."""
        if chance.random() > 1 / 3:
            return 0
        wanted = status or chance.choice((409, 429, 500))
        return wanted if request.write or wanted != 409 else 0

    watchman = Watchman(replicas=3)
    with EagerKubelet(api, watchman.saw):
        proxy.refused = refuse
        with cutting(proxy, seconds=2):
            chat.create(replicas=3)
            check_end(api, chat, 3, "llama-runtime:1")
            chat.change(image="llama-runtime:2")
            check_end(api, chat, 3, "llama-runtime:2")
            watchman.scaling = True
            chat.change(replicas=1)
            check_end(api, chat, 1, "llama-runtime:2")
    assert watchman.faults == []
    chat.delete()
    check_gone(api)


@contextmanager
def cutting(proxy: Proxy, seconds: float) -> Iterator[None]:
    """Cut every connection now and then."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(seconds):
            proxy.cut()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
