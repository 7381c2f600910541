"""The life of the process, with a scripted engine: load, serve, drain, exit."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from llama_runtime import process as process_module
from llama_runtime.generation import ModelUnusable
from llama_runtime.numa import Binding, NumaWatch, observe
from llama_runtime.numa.topology import Topology
from llama_runtime.numa.verdict import Observation, judge
from llama_runtime.process import Process
from llama_runtime.settings import Settings
from tests.runtime.api.fake_engine import FakeEngine, text_script
from tests.runtime.waiting import until

CHAT = {"messages": [{"role": "user", "content": "Say it."}]}
Load = Callable[[Settings, Callable[[float], None]], Any]


class Running:
    """A Process in this event loop, and clients of its two ports."""

    def __init__(self, settings: Settings, load: Load, observe_numa: Any) -> None:
        self.log = settings.termination_log
        self.process = Process(settings, load, observe_numa)
        self.task = asyncio.create_task(self.process.run())
        self.api = httpx.AsyncClient(timeout=60, verify=False)
        self.management = httpx.AsyncClient(timeout=60, verify=False)

    async def listening(self) -> Running:
        await until(lambda: bool(self.process.ports))
        api, management = self.process.ports
        self.api.base_url = httpx.URL(f"http://127.0.0.1:{api}")
        self.management.base_url = httpx.URL(f"http://127.0.0.1:{management}")
        return self

    async def status(self) -> dict[str, Any]:
        status: dict[str, Any] = (await self.management.get("/status")).json()
        return status

    async def in_state(self, state: str) -> dict[str, Any]:
        await until(lambda: self.process.status()["state"] == state)
        return await self.status()

    async def code(self, path: str) -> int:
        return (await self.management.get(path)).status_code

    def terminate(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    def ending(self) -> dict[str, Any]:
        ending: dict[str, Any] = json.loads(self.log.read_text())
        return ending

    async def aclose(self) -> None:
        await self.api.aclose()
        await self.management.aclose()
        if not self.task.done():
            self.terminate()
        await self.task


Run = Callable[..., Awaitable[Running]]


@pytest.fixture
async def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Run]:
    """Starts a process; what is still running is told to stop with the test."""
    monkeypatch.setattr(process_module, "MODEL_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(process_module, "ENGINE_LOOK_SECONDS", 0.01)
    model = tmp_path / "chat.gguf"
    model.write_text("a model")
    started: list[Running] = []

    async def run(load: Load | FakeEngine, observe_numa: Any = None, **changes: object) -> Running:
        defaults: dict[str, Any] = {
            "model_path": model,
            "host": "127.0.0.1",
            "port": 0,
            "management_port": 0,
            "drain_delay": 0,
            "termination_log": tmp_path / "termination.json",
        }
        settings = Settings(**{**defaults, **changes})
        loads = (lambda *_: load) if isinstance(load, FakeEngine) else load
        numa = observe_numa or (lambda: observe(settings.numa_policy))
        started.append(Running(settings, loads, numa))
        return await started[-1].listening()

    yield run
    for each in started:
        await each.aclose()


async def test_a_serving_process_is_ready_and_says_what_it_serves(run: Run) -> None:
    running = await run(FakeEngine())
    status = await running.in_state("Serving")
    for path in ("/healthz", "/readyz", "/startupz", "/metrics"):
        assert await running.code(path) == 200
    assert status["version"] == 1
    assert status["model"]["alias"] == "chat"
    assert status["model"]["sizeBytes"] == len("a model")
    assert status["model"]["loaded"]
    assert status["kv"]["maxSequences"] == 2
    assert status["numa"]["policy"] == "Preferred"
    assert status["memory"]["rssBytes"] > 0
    answer = await running.api.post("/v1/chat/completions", json=CHAT)
    assert answer.json()["choices"][0]["message"]["content"] == "Hello"
    metrics = (await running.management.get("/metrics")).text
    assert 'llama_runtime_state{state="Serving"} 1.0' in metrics
    assert 'code="200",method="POST",path="/v1/chat/completions"' in metrics


async def test_a_load_shows_its_progress_and_is_no_death(run: Run) -> None:
    finish = threading.Event()

    def load(settings: Settings, on_progress: Callable[[float], None]) -> FakeEngine:
        on_progress(0.3)
        assert finish.wait(60)
        return FakeEngine()

    running = await run(load)
    await until(lambda: running.process.status()["model"]["loadProgress"] == 0.3)
    startup = await running.management.get("/startupz")
    assert startup.status_code == 503
    assert "30%" in startup.text
    assert await running.code("/healthz") == 200
    assert await running.code("/readyz") == 503
    answer = await running.api.post("/v1/chat/completions", json=CHAT)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    finish.set()
    await running.in_state("Serving")


async def test_a_model_that_cannot_be_used_is_tried_again_when_it_changes(
    run: Run, tmp_path: Path
) -> None:
    model = tmp_path / "later.gguf"
    loads = []

    def load(settings: Settings, on_progress: Callable[[float], None]) -> FakeEngine:
        loads.append(model.read_text() if model.exists() else None)
        if loads[-1] is None:
            raise ModelUnusable("ModelFileMissing", "There is no file: mount it.")
        if loads[-1] != "good":
            raise ModelUnusable("ModelCorrupt", "It is no GGUF: replace it.")
        return FakeEngine()

    running = await run(load, model_path=model)
    status = await running.in_state("Failed")
    assert (status["reason"], status["message"]) == (
        "ModelFileMissing",
        "There is no file: mount it.",
    )
    assert status["kv"] is None
    assert status["model"]["sizeBytes"] is None
    assert await running.code("/healthz") == 200
    assert (await running.management.get("/readyz")).text.startswith("ModelFileMissing")
    answer = await running.api.get("/v1/models")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "30")
    model.write_text("bad")
    await until(lambda: running.process.status()["reason"] == "ModelCorrupt")
    model.write_text("good")
    await running.in_state("Serving")
    assert loads == [None, "bad", "good"]  # once for each change: nothing loops


async def test_a_drain_is_unready_first_then_refuses_then_ends(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoints_gone, gate = asyncio.Event(), asyncio.Event()
    monkeypatch.setattr(Process, "_let_endpoints_go", lambda *_: endpoints_gone.wait())
    engine = FakeEngine(text_script("Hello", gate=gate, gate_after=2), text_script("Hi"))
    running = await run(engine)
    await running.in_state("Serving")
    body = CHAT | {"stream": True}
    async with running.api.stream("POST", "/v1/chat/completions", json=body) as stream:
        await until(lambda: engine.streams[0].sent == 2)
        running.terminate()
        await running.in_state("Draining")
        assert await running.code("/readyz") == 503
        assert await running.code("/healthz") == 200
        late = await running.api.post("/v1/chat/completions", json=CHAT)
        assert late.json()["choices"][0]["message"]["content"] == "Hi"
        assert late.headers["connection"] == "close"
        endpoints_gone.set()
        await until(lambda: engine.draining)
        refused = await running.api.post("/v1/chat/completions", json=CHAT)
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "1"
        assert refused.headers["connection"] == "close"
        assert not running.task.done()
        gate.set()
        text = "".join([line async for line in stream.aiter_lines()])
    assert "[DONE]" in text
    assert await running.task == 0
    assert running.ending()["reason"] == "Drained"
    assert engine.is_closed


async def test_late_requests_are_taken_until_nobody_comes_any_more(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proxies hear late: the delay is over (0 s), but somebody came a moment ago."""
    looks: list[float | None] = []
    go = asyncio.Event()

    def seconds(now: float, *, last_arrival: float | None, **_: float) -> float:
        looks.append(last_arrival)
        return 0.0 if go.is_set() else 0.005

    monkeypatch.setattr(process_module, "seconds_to_refusal", seconds)
    running = await run(FakeEngine())
    await running.in_state("Serving")
    running.terminate()
    await running.in_state("Draining")
    for _ in range(3):
        assert (await running.api.post("/v1/chat/completions", json=CHAT)).status_code == 200
    arrived = running.process._metrics.last_arrival
    await until(lambda: looks[-1] == arrived)
    go.set()
    assert await running.task == 0


async def test_connections_end_with_the_drain(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was idle, and one whose stream began before, with the word keep-alive."""
    endpoints_gone, gate = asyncio.Event(), asyncio.Event()
    monkeypatch.setattr(Process, "_let_endpoints_go", lambda *_: endpoints_gone.wait())
    engine = FakeEngine(text_script("Hello", gate=gate, gate_after=2), text_script("Hi"))
    running = await run(engine)
    await running.in_state("Serving")
    port = running.process.ports[0]
    body = json.dumps(CHAT | {"stream": True}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    idle_reader, idle_writer = await asyncio.open_connection("127.0.0.1", port)
    idle_writer.write(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")
    await idle_reader.readuntil(b"}]}")
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head.encode() + body)
    await until(lambda: bool(engine.streams) and engine.streams[0].sent == 2)
    running.terminate()
    await running.in_state("Draining")
    gate.set()
    assert (await reader.read()).endswith(b"0\r\n\r\n")  # the end of the stream, then of the line
    endpoints_gone.set()
    assert await idle_reader.read() == b""
    assert await running.task == 0
    writer.close()
    idle_writer.close()


async def test_a_drain_that_takes_too_long_cuts_streams_with_an_error(run: Run) -> None:
    engine = FakeEngine(text_script("Hello", gate=asyncio.Event(), gate_after=2))
    running = await run(engine, drain_timeout=0.05)
    await running.in_state("Serving")
    body = CHAT | {"stream": True}
    async with running.api.stream("POST", "/v1/chat/completions", json=body) as stream:
        await until(lambda: engine.streams[0].sent == 2)
        running.terminate()
        lines = [line async for line in stream.aiter_lines() if line]
    assert json.loads(lines[-1].removeprefix("data: "))["error"]["code"] == "engine_failed"
    assert await running.task == 0
    assert running.ending()["reason"] == "DrainTimedOut"
    assert "1 requests were cut off" in running.ending()["message"]


async def test_a_signal_ends_a_load(run: Run) -> None:
    loading, never = threading.Event(), threading.Event()

    def load(settings: Settings, on_progress: Callable[[float], None]) -> FakeEngine:
        loading.set()
        never.wait()
        raise AssertionError

    running = await run(load)
    await until(loading.is_set)
    running.terminate()
    assert await running.task == 0
    assert running.ending()["reason"] == "Drained"


async def test_a_dead_engine_ends_the_process(run: Run) -> None:
    engine = FakeEngine()
    running = await run(engine)
    await running.in_state("Serving")
    engine.failed = "The context can't be rebuilt: see the log."
    assert await running.task == 70
    assert running.ending() == {"reason": "EngineFailed", "message": engine.failed}


async def test_a_load_that_fails_for_no_known_reason_ends_the_process(run: Run) -> None:
    def load(settings: Settings, on_progress: Callable[[float], None]) -> FakeEngine:
        raise OSError("libllama.so is gone")

    running = await run(load)
    assert await running.task == 70
    assert "libllama.so is gone" in running.ending()["message"]


class Report:
    verdict = "MemoryRemote"
    message = "Half of the memory is on node 1: give the pod whole CPUs."
    aligned = False

    def as_dict(self) -> dict[str, Any]:
        return {"verdict": self.verdict, "message": self.message}


async def test_required_alignment_that_is_not_there_ends_the_process(run: Run) -> None:
    engine = FakeEngine()
    running = await run(engine, observe_numa=Report, numa_policy="Required")
    assert await running.task == 78
    assert running.ending() == {
        "reason": "NUMANotAligned",
        "message": Report.message,
        "numa": {"verdict": Report.verdict},
    }
    assert not running.process.status()["model"]["loaded"]


async def test_required_alignment_that_is_lost_while_serving_is_reported(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_module, "NUMA_LOOK_SECONDS", 0.0)
    nodes = {0: frozenset({0, 1}), 1: frozenset({2, 3})}
    aligned = Observation(
        topology=Topology(nodes, {}),
        cpus=frozenset({2, 3}),
        mems=frozenset({1}),
        gpus=(),
        pages_kib={1: 100},
        binding=Binding(frozenset({2, 3})),
    )
    found = [aligned]
    watch = NumaWatch(lambda enough: judge(found[0], "Required", enough), pause=lambda: None)
    running = await run(FakeEngine(), observe_numa=watch.look, numa_policy="Required")
    assert (await running.in_state("Serving"))["numa"]["verdict"] == "Aligned"
    found[0] = replace(aligned, pages_kib={0: 90, 1: 10})
    await until(lambda: running.process.status()["numa"]["verdict"] == "MemoryRemote")
    status = await running.status()
    assert status["state"] == "Serving"
    assert (status["numa"]["changes"], status["numa"]["previousVerdict"]) == (1, "Aligned")
    assert await running.code("/readyz") == 200
    metrics = (await running.management.get("/metrics")).text
    assert "llama_runtime_numa_verdict_changes_total 1.0" in metrics
    assert 'llama_runtime_numa_verdict{verdict="MemoryRemote"} 1.0' in metrics


async def test_preferred_alignment_that_is_not_there_is_shown(run: Run) -> None:
    running = await run(FakeEngine(), observe_numa=Report)
    status = await running.in_state("Serving")
    assert status["numa"]["verdict"] == "MemoryRemote"


async def test_an_engine_that_stands_still_is_unhealthy(run: Run) -> None:
    engine = FakeEngine()
    running = await run(engine)
    await running.in_state("Serving")
    engine.heartbeat_age = 10_000.0
    assert await running.code("/healthz") == 503
    engine.heartbeat_age = 0.01
    assert await running.code("/healthz") == 200


async def test_missing_keys_are_shown_while_nobody_is_let_in(run: Run, tmp_path: Path) -> None:
    running = await run(FakeEngine(), server_api_key_file=tmp_path / "keys")
    status = await running.in_state("Serving")
    assert status["reason"] == "APIKeysUnreadable"
    assert (await running.api.get("/v1/models")).status_code == 401
    (tmp_path / "keys").write_text("secret")
    assert (await running.status())["reason"] is None
    headers = {"authorization": "Bearer secret"}
    assert (await running.api.get("/v1/models", headers=headers)).status_code == 200


async def test_the_management_port_answers_while_the_api_is_busy(run: Run) -> None:
    running = await run(FakeEngine())
    await running.in_state("Serving")
    codes: list[int] = []

    def ask() -> None:
        base = f"http://127.0.0.1:{running.process.ports[1]}"
        with httpx.Client(base_url=base, timeout=60, verify=False) as client:
            for path in ("/healthz", "/readyz", "/startupz", "/status", "/metrics"):
                codes.append(client.get(path).status_code)

    asking = threading.Thread(target=ask)
    asking.start()
    asking.join()  # the event loop of the API stands still meanwhile
    assert codes == [200] * 5


async def test_a_port_that_is_taken_is_a_bad_flag(run: Run, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        log = tmp_path / "taken.json"
        settings = Settings(
            model_path=tmp_path / "chat.gguf",
            host="127.0.0.1",
            port=taken.getsockname()[1],
            management_port=0,
            termination_log=log,
        )
        process = Process(settings, lambda *_: FakeEngine(), Report)  # type: ignore[arg-type]
        assert await process.run() == 2
    assert json.loads(log.read_text())["reason"] == "AddressUnusable"


TWO_SIGNALS = """
import asyncio, os, signal, sys, threading
from pathlib import Path
from llama_runtime.process import Process
from llama_runtime.settings import Settings
from tests.runtime.api.fake_engine import FakeEngine
from tests.runtime.test_process import Report

folder = Path(sys.argv[1])
settings = Settings(model_path=folder / "m.gguf", host="127.0.0.1", port=0, management_port=0,
                    drain_delay=3600, termination_log=folder / "log.json")

async def main():
    process = Process(settings, lambda *_: FakeEngine(), Report)
    running = asyncio.create_task(process.run())
    while process.status()["state"] != "Serving":
        await asyncio.sleep(0.01)
    os.kill(os.getpid(), signal.SIGTERM)
    while process.status()["state"] != "Draining":
        await asyncio.sleep(0.01)
    os.kill(os.getpid(), signal.SIGTERM)
    await running

asyncio.run(main())
"""


def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", TWO_SIGNALS, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": f"{root / 'runtime'}:{root}"},
        timeout=120,
        check=False,
    )
    assert done.returncode == 128 + signal.SIGTERM
    assert json.loads((tmp_path / "log.json").read_text())["reason"] == "Terminated"
