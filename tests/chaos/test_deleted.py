"""The resource is deleted in the middle of each phase."""

from __future__ import annotations

import threading

import pytest

from tests.chaos.invariants import check_gone
from tests.chaos.supervisor import Supervisor
from tests.chaos.test_killed import act
from tests.operator.integration.api import Api, eventually
from tests.operator.integration.deployment import Deployment
from tests.operator.integration.kubelet import EagerKubelet
from tests.operator.integration.proxy import Proxy, Request

FIRST = ("POST services", "POST poddisruptionbudgets", "POST pods", "PATCH llamadeployments/status")
ROLLING = ("DELETE pods", "POST pods", "PATCH llamadeployments/status")


class Deleter:
    """Deletes the resource when the operator is about to do something, or has just done it."""

    def __init__(self, chat: Deployment, proxy: Proxy, moment: str, wanted: str) -> None:
        self.done = threading.Event()
        self._chat = chat
        self._wanted = wanted
        if moment == "before":
            proxy.before = self._meet
        else:
            proxy.after = lambda request, status: self._meet(request)

    def _meet(self, request: Request) -> None:
        if request.write and act(request) == self._wanted and not self.done.is_set():
            self.done.set()
            self._chat.delete()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_nothing_is_left_of_it(
    operator: Supervisor, proxy: Proxy, api: Api, chat: Deployment, moment: str
) -> None:
    with EagerKubelet(api, lambda pods: None):
        for phase in FIRST:
            deleter = Deleter(chat, proxy, moment, phase)
            chat.create(replicas=2)
            eventually(deleter.done.is_set)
            eventually(lambda: api.get("llamadeployments", "chat") is None)
            check_gone(api)
        for phase in ROLLING:
            chat.create(replicas=2)
            eventually(chat.settled)
            deleter = Deleter(chat, proxy, moment, phase)
            chat.change(image="llama-runtime:2")
            eventually(deleter.done.is_set)
            eventually(lambda: api.get("llamadeployments", "chat") is None)
            check_gone(api)

        proxy.before, proxy.after = lambda request: None, lambda request, status: None
        chat.create(replicas=1)
        eventually(chat.settled)

    assert operator.starts == 1, operator.log
