"""The program itself, ``python -m llama_runtime``, with the real model."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.runtime.api.conftest import openai_client

ROOT = Path(__file__).parents[2]


@dataclass
class Program:
    process: Process
    api: str
    management: httpx.AsyncClient
    termination_log: Path

    async def in_state(self, state: str) -> dict[str, Any]:
        while True:
            try:
                status: dict[str, Any] = (await self.management.get("/status")).json()
                if status["state"] == state:
                    return status
            except httpx.TransportError:
                assert self.process.returncode is None
            await asyncio.sleep(0.05)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def documented_status() -> dict[str, Any]:
    """The example in docs/architecture.md, which the operator relies on."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    block = text.partition('```json\n{\n  "version": 1')[2].partition("```")[0]
    example: dict[str, Any] = json.loads('{"version": 1' + block)
    return example


def assert_documented(example: Any, actual: Any, where: str = "status") -> None:
    """What the example has, the answer has, of the same type or null."""
    if actual is None or example is None:
        return
    if not isinstance(example, dict):
        number = isinstance(example, int | float) and isinstance(actual, int | float)
        assert number or type(actual) is type(example), where
        return
    for key in example.keys() - {"…", "0", "1"}:
        assert key in actual, f"{where}.{key}"
        assert_documented(example[key], actual[key], f"{where}.{key}")


@pytest.fixture
async def program(libllama: Path, tmp_path: Path) -> AsyncIterator[Program]:
    """Serves ``tmp_path/model.gguf``, which is not a model yet."""
    model = tmp_path / "model.gguf"
    model.write_bytes(b"not a model")
    api, management = free_port(), free_port()
    flags = {
        "--model-path": model,
        "--model-alias": "chat",
        "--kv-max-sequences": 2,
        "--kv-context-per-sequence": 512,
        "--engine-threads": 1,
        "--host": "127.0.0.1",
        "--port": api,
        "--management-port": management,
        "--drain-delay": 0,
        "--termination-log": tmp_path / "termination.json",
    }
    arguments = [str(part) for flag in flags.items() for part in flag]
    with (tmp_path / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "llama_runtime", *arguments),
            env={**os.environ, "PYTHONPATH": str(ROOT / "runtime")},
            stderr=log,
        )
    base = f"http://127.0.0.1:{management}"
    async with httpx.AsyncClient(base_url=base, timeout=60, verify=False) as client:
        yield Program(process, f"http://127.0.0.1:{api}", client, tmp_path / "termination.json")
    if process.returncode is None:
        process.kill()
    await process.wait()


async def test_from_a_corrupt_file_to_a_drained_stream(
    program: Program, model_path: Path, tmp_path: Path
) -> None:
    failed = await program.in_state("Failed")
    assert failed["reason"] == "ModelCorrupt"
    assert program.process.returncode is None

    good = tmp_path / "good.gguf"
    shutil.copyfile(model_path, good)
    good_size = good.stat().st_size
    good.rename(tmp_path / "model.gguf")
    serving = await program.in_state("Serving")
    assert_documented(documented_status(), serving)
    assert serving["model"]["loaded"]
    assert serving["kv"]["sequences"] == {"running": 0, "cached": 0, "free": 2}
    assert serving["numa"]["verdict"]
    noted = json.loads(program.termination_log.read_text())["memory"]
    assert noted["weightsBytes"] == good_size
    assert noted["kvBytes"] == serving["kv"]["bytes"]
    assert noted["computeBytes"] > 0

    async with openai_client(program.api) as client:
        stream = await client.chat.completions.create(
            model="chat",
            messages=[{"role": "user", "content": "Write one sentence about the sea."}],
            stream=True,
            max_tokens=24,
            temperature=0,
            extra_body={"ignore_eos": True},
        )
        chunks = aiter(stream)
        await anext(chunks)
        program.process.send_signal(signal.SIGTERM)
        await program.in_state("Draining")
        assert (await program.management.get("/readyz")).status_code == 503
        reasons = [chunk.choices[0].finish_reason async for chunk in chunks]
    assert reasons[-1] == "length"
    assert await program.process.wait() == 0
    assert json.loads(program.termination_log.read_text())["reason"] == "Drained"
    for line in (tmp_path / "log").read_text().splitlines():
        event = json.loads(line)
        assert {"time", "level", "logger", "message"} <= event.keys()
        assert "sea" not in line  # no request's text in the logs
