"""What the operator asks of the API server, counted by what stands between them."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest

from tests.operator.integration.api import Api, eventually
from tests.operator.integration.deployment import Deployment
from tests.operator.integration.kubelet import Kubelet
from tests.operator.integration.process import OperatorProcess, grant
from tests.operator.integration.proxy import Proxy
from tests.operator.integration.runtime import FakeRuntime

CURIOUS = ("-m", "tests.operator.integration.curious_operator")
KINDS = 4


@pytest.fixture
def counted(
    alone: Api, proxy: Proxy, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    directory = tmp_path_factory.mktemp("counted")
    process = OperatorProcess(alone, directory, grant(alone), server=proxy.url)
    yield process
    if process.running:
        process.kill()


def asked_since(runtime: FakeRuntime, count: int) -> bool:
    return runtime.asked > count


def test_at_rest_and_under_load_nothing_is_written_and_a_resync_is_four_lists(
    alone: Api, proxy: Proxy, counted: OperatorProcess
) -> None:
    chat, kubelet = Deployment(alone), Kubelet(alone)
    counted.start(program=CURIOUS, resync_seconds=3)
    with FakeRuntime() as runtime:
        runtime.says()
        chat.create(replicas=1)
        address = {"podIP": runtime.ip, "podIPs": [{"ip": runtime.ip}]}
        alone.patch("pods", chat.wait_for_pod("chat-0"), {"status": address}, "status")
        kubelet.ready("chat-0")
        eventually(chat.settled)
        eventually(lambda: chat.condition("NUMAAligned") == ("True", "Aligned"))

        # Busy: every answer is another one, and none of it matters.
        cache = {"contextTokens": 65536, "bytes": 1509949440}
        written = len(proxy.writes())
        answered = runtime.asked
        for number in range(30):
            sequences = {"running": number % 16, "cached": 0, "free": 16 - number % 16}
            kv = {**cache, "spanRatio": (number % 7) / 10, "sequences": sequences}
            runtime.says(kv=kv)
            eventually(functools.partial(asked_since, runtime, runtime.asked + 1))
        assert runtime.asked >= answered + 60
        assert [str(request) for request in proxy.writes()[written:]] == []

        # At rest.
        begin, resyncs = len(proxy.seen), counted.resyncs()
        eventually(lambda: counted.resyncs() >= resyncs + 3)
        seen = proxy.seen[begin:]
        lists = [request for request in seen if not request.watch]
        assert [str(request) for request in lists if request.write] == []
        assert KINDS * 2 <= len(lists) <= KINDS * (counted.resyncs() - resyncs + 1)
