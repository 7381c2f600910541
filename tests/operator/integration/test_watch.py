"""Watches that are accepted and silent, or refused: it goes on by lists, says so and recovers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.operator.integration.api import Api, eventually
from tests.operator.integration.deployment import Deployment
from tests.operator.integration.process import OperatorProcess, grant
from tests.operator.integration.proxy import Proxy, Request

IMPATIENT = ("-m", "tests.operator.integration.impatient_operator")


@pytest.fixture
def impatient(
    alone: Api, proxy: Proxy, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    process = OperatorProcess(
        alone,
        tmp_path_factory.mktemp("impatient"),
        grant(alone),
        server=proxy.url,
    )
    yield process
    if process.running:
        process.kill()


def about_resources(request: Request) -> bool:
    return request.watch and "/llamadeployments" in request.path


def test_a_silent_watch_is_bridged_by_lists_and_ends_as_unhealthy(
    alone: Api, proxy: Proxy, impatient: OperatorProcess
) -> None:
    chat = Deployment(alone)
    proxy.silent = about_resources
    impatient.start(program=IMPATIENT)
    impatient.wait_ready()

    # No watch tells of it.
    chat.create(replicas=1)

    eventually(lambda: chat.names() == ["chat-0"])
    eventually(lambda: impatient.health() == 503)
    assert impatient.running


def test_a_refused_watch_is_told_and_does_not_end_the_process(
    alone: Api, proxy: Proxy, impatient: OperatorProcess
) -> None:
    chat = Deployment(alone)

    def refused() -> list[Request]:
        return [request for request in proxy.seen if about_resources(request)]

    proxy.refused = lambda request: 403 if about_resources(request) else 0
    impatient.start(program=IMPATIENT)
    # kopf itself gives up after eight tries.
    eventually(lambda: len(refused()) > 12)
    assert impatient.running
    assert "llamadeployments" in impatient.log
    assert "403" in impatient.log
    assert "The proxy refuses." in impatient.log

    proxy.refused = lambda request: 0
    chat.create(replicas=1)
    eventually(lambda: chat.names() == ["chat-0"])
    assert impatient.running
