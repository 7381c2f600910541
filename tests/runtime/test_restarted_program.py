"""The program itself, restarted on request: what it tells, and what it still knows afterwards."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.runtime.api.conftest import openai_client
from tests.runtime.test_serving import ROOT, Program, free_port

TEXT = "The sea is wide, and the ships that cross it are small. " * 25


@asynccontextmanager
async def started(model: Path, folder: Path) -> AsyncIterator[Program]:
    api, management = free_port(), free_port()
    flags: dict[str, object] = {
        "--model-path": model,
        "--model-alias": "chat",
        "--kv-max-sequences": 2,
        "--kv-context-per-sequence": 512,
        "--kv-keep-directory": folder / "kept",
        "--request-file": folder / "request",
        "--engine-threads": 1,
        "--host": "127.0.0.1",
        "--port": api,
        "--management-port": management,
        "--drain-delay": 0,
        "--termination-log": folder / "termination.json",
    }
    arguments = [str(part) for flag in flags.items() for part in flag]
    with (folder / "log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "llama_runtime", *arguments),
            env={**os.environ, "PYTHONPATH": str(ROOT / "runtime")},
            stderr=log,
        )
    base = f"http://127.0.0.1:{management}"
    try:
        async with httpx.AsyncClient(base_url=base, timeout=60, verify=False) as client:
            log_file = folder / "termination.json"
            yield Program(process, f"http://127.0.0.1:{api}", client, log_file)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def complete(program: Program) -> tuple[str, int]:
    """The greedy continuation of a text, and how many of its tokens were known already."""
    async with openai_client(program.api) as client:
        answer = await client.completions.create(
            model="chat", prompt=TEXT, max_tokens=8, temperature=0
        )
    assert answer.usage is not None
    details = answer.usage.prompt_tokens_details
    return answer.choices[0].text, (details.cached_tokens or 0) if details else 0


def ask(folder: Path, id: str, action: str) -> None:  # noqa: A002
    new = folder / "request.new"
    new.write_text(json.dumps({"id": id, "action": action}))
    new.rename(folder / "request")


async def answered(program: Program, id: str) -> dict[str, Any]:  # noqa: A002
    while True:
        status = await program.in_state("Serving")
        request = status["request"]
        if request["id"] == id and request["state"] != "Running":
            return status
        await asyncio.sleep(0.05)


async def test_a_restart_on_request_keeps_the_conversations(
    libllama: Path, model_path: Path, tmp_path: Path
) -> None:
    (tmp_path / "request").touch()
    async with started(model_path, tmp_path) as program:
        assert (await program.in_state("Serving"))["kv"]["restored"]["sequences"] == 0
        text, cached = await complete(program)
        assert cached == 0
        ask(tmp_path, "1", "Restart")
        assert await program.process.wait() == 0
    ending: dict[str, Any] = json.loads(program.termination_log.read_text())
    assert (ending["reason"], ending["requestId"]) == ("RestartRequested", "1")
    assert ending["kept"]["sequences"] == 1
    assert ending["before"]["cellsUsed"] == ending["kept"]["tokens"] > 300
    assert ending["before"]["rssBytes"] > 0

    async with started(model_path, tmp_path) as program:
        status = await program.in_state("Serving")
        assert (status["request"]["id"], status["request"]["state"]) == ("1", "Done")
        assert status["kv"]["restored"]["tokens"] == ending["kept"]["tokens"]
        assert await complete(program) == (text, ending["kept"]["tokens"] - 8)
        ask(tmp_path, "2", "Compact")
        status = await answered(program, "2")
        assert status["request"]["state"] == "Done"
        assert status["kv"]["lastCure"]["cause"] == "Request"
    assert list((tmp_path / "kept").iterdir()) == []  # it was killed, and nothing is read twice
