"""A process that is asked through its file: it compacts, or drains and ends."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from llama_runtime import pod_request
from llama_runtime.generation import CureRefused, ModelUnusable
from llama_runtime.process import Process
from tests.runtime.api.fake_engine import FakeEngine, text_script
from tests.runtime.test_process import CHAT, Run, Running, run
from tests.runtime.waiting import until

__all__ = ["run"]


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_request, "LOOK_SECONDS", 0.01)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "request"
    path.write_text("")  # what the kubelet writes without the annotation
    return path


def write(file: Path, content: str) -> None:
    """As the kubelet does it: never half a file."""
    new = file.with_suffix(".new")
    new.write_text(content)
    new.rename(file)


def ask(file: Path, id: str, action: str) -> None:  # noqa: A002
    write(file, json.dumps({"id": id, "action": action}))


async def answered(running: Running, id: str) -> dict[str, Any]:  # noqa: A002
    def is_over() -> bool:
        request = running.process.status()["request"]
        return bool(request) and request["id"] == id and request["state"] != "Running"

    await until(is_over)
    answer: dict[str, Any] = (await running.status())["request"]
    return answer


async def test_the_cache_is_compacted_on_request(run: Run, file: Path) -> None:
    engine = FakeEngine()
    running = await run(engine, request_file=file)
    assert (await running.in_state("Serving"))["request"] is None
    ask(file, "1", "Compact")
    answer = await answered(running, "1")
    assert answer["state"] == "Done"
    assert "spanned 16 and now span 12" in answer["message"]
    engine.reject = CureRefused("There is no memory for it: ask for a Restart.")
    ask(file, "2", "Compact")
    answer = await answered(running, "2")
    assert (answer["state"], answer["message"]) == ("Failed", str(engine.reject))
    write(file, "")
    assert (await running.status())["request"] == answer
    assert (await running.status())["state"] == "Serving"


async def test_a_process_without_a_model_has_no_cache(run: Run, file: Path) -> None:
    def load(*_: Any) -> FakeEngine:
        raise ModelUnusable("ModelFileMissing", "There is no file: mount it.")

    running = await run(load, request_file=file)
    await running.in_state("Failed")
    ask(file, "1", "Compact")
    answer = await answered(running, "1")
    assert answer["state"] == "Failed"
    assert "no KV cache" in answer["message"]


async def test_a_requested_restart_drains_and_tells_what_it_was_for(
    run: Run, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoints_gone, gate = asyncio.Event(), asyncio.Event()
    monkeypatch.setattr(Process, "_let_endpoints_go", lambda *_: endpoints_gone.wait())
    engine = FakeEngine(text_script("Hello", gate=gate, gate_after=2))
    running = await run(engine, request_file=file)
    await running.in_state("Serving")
    body = CHAT | {"stream": True}
    async with running.api.stream("POST", "/v1/chat/completions", json=body) as stream:
        await until(lambda: engine.streams[0].sent == 2)
        ask(file, "20260101T030000Z", "Restart")
        status = await running.in_state("Draining")
        assert status["reason"] == "RestartRequested"
        assert status["request"]["state"] == "Running"
        assert await running.code("/readyz") == 503
        endpoints_gone.set()
        await until(lambda: engine.draining)
        refused = await running.api.post("/v1/chat/completions", json=CHAT)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        gate.set()
        text = "".join([line async for line in stream.aiter_lines()])
    assert "[DONE]" in text
    assert await running.task == 0
    ending: dict[str, Any] = json.loads(running.log.read_text())
    assert ending["reason"] == "RestartRequested"
    assert ending["requestId"] == "20260101T030000Z"
    assert ending["before"]["spanRatio"] == 0.25
    assert ending["before"]["tokensPerSecond"] == 45.0
    assert ending["before"]["rssBytes"] > 0
    unready, exited = (datetime.fromisoformat(ending[key]) for key in ("unreadyAt", "exitedAt"))
    assert datetime.fromisoformat(ending["startedAt"]) <= unready <= exited
    assert len(running.log.read_bytes()) < 4096  # what the kubelet keeps of it


async def test_the_restarted_process_does_not_restart_again(run: Run, file: Path) -> None:
    ask(file, "1", "Restart")
    running = await run(FakeEngine(), request_file=file)
    answer = await answered(running, "1")
    assert answer["state"] == "Done"
    await running.in_state("Serving")
    await asyncio.sleep(0.1)
    assert not running.task.done()
    ask(file, "2", "Restart")
    assert await running.task == 0


async def test_a_signal_during_a_requested_restart_cuts_nothing(
    run: Run, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a second signal does: the first may come from a pod that is deleted meanwhile."""
    gate = asyncio.Event()
    engine = FakeEngine(text_script("Hello", gate=gate, gate_after=2))
    running = await run(engine, request_file=file)
    await running.in_state("Serving")
    body = CHAT | {"stream": True}
    async with running.api.stream("POST", "/v1/chat/completions", json=body) as stream:
        await until(lambda: engine.streams[0].sent == 2)
        ask(file, "1", "Restart")
        await running.in_state("Draining")
        running.terminate()
        await until(lambda: running.process.status()["reason"] == "Terminating")
        gate.set()
        text = "".join([line async for line in stream.aiter_lines()])
    assert "[DONE]" in text
    assert await running.task == 0


async def test_a_restart_is_not_begun_by_a_process_that_stops(
    run: Run, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoints_gone = asyncio.Event()
    monkeypatch.setattr(Process, "_let_endpoints_go", lambda *_: endpoints_gone.wait())
    running = await run(FakeEngine(), request_file=file)
    await running.in_state("Serving")
    running.terminate()
    await running.in_state("Draining")
    ask(file, "1", "Restart")
    assert (await answered(running, "1"))["state"] == "Failed"
    endpoints_gone.set()
    assert await running.task == 0
    assert running.ending()["reason"] == "Drained"


async def test_what_is_no_request_is_shown_and_stops_nothing(run: Run, file: Path) -> None:
    running = await run(FakeEngine(), request_file=file)
    await running.in_state("Serving")
    write(file, "please restart")
    await until(lambda: bool(running.process.status()["request"]))
    request = (await running.status())["request"]
    assert (request["id"], request["state"]) == (None, "Failed")
    assert "not JSON" in request["message"]
    ask(file, "1", "Compact")
    assert (await answered(running, "1"))["state"] == "Done"
