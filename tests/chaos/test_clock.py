"""The clock of the operator's machine jumps ahead, and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.invariants import check_end
from tests.cluster_fixtures import REPOSITORY
from tests.operator.integration.api import Api, eventually
from tests.operator.integration.deployment import Deployment
from tests.operator.integration.kubelet import Kubelet
from tests.operator.integration.process import OperatorProcess, grant

SCRIPTED = REPOSITORY / "tests/operator/integration/scripted_operator.py"
DAY = 86_400


@pytest.mark.parametrize("jump", [DAY, -DAY], ids=["ahead", "back"])
def test_a_refused_pod_is_tried_again_once_and_soon(
    api: Api, chat: Deployment, tmp_path: Path, jump: int
) -> None:
    process = OperatorProcess(api, tmp_path, grant(api))
    (tmp_path / "clock").write_text("0")
    process.start(resync_seconds=1, program=(str(SCRIPTED),), environment={"SCRIPT": str(tmp_path)})
    kubelet = Kubelet(api)
    try:
        chat.create(replicas=1)
        first = eventually(lambda: chat.uids().get("chat-0"))
        kubelet.refuse("chat-0")
        eventually(lambda: chat.retry(0).get("count") == 1)

        (tmp_path / "clock").write_text(str(jump))

        eventually(lambda: chat.uids().get("chat-0", first) != first)
        kubelet.ready("chat-0")
        check_end(api, chat, 1, "llama-runtime:1")
        resyncs = process.metrics()["llama_operator_resyncs_total"]
        pods, writes = chat.uids(), process.writes()
        eventually(lambda: process.metrics()["llama_operator_resyncs_total"] >= resyncs + 3)
        assert chat.uids() == pods
        assert process.writes() == writes
    finally:
        process.kill()
