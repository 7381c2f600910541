"""The operator with a clock, runtimes and a death that the test scripts.

Only the edges are replaced: the clock, the question to a runtime, and the client, which kills
the process at a write that the file `die` names and is the real one otherwise.

Environment: SCRIPT is a folder. `clock` in it holds seconds by which the clock is ahead,
`runtimes.json` what the runtime at an address answers, `die` a point of `POINTS`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from llama_operator import __main__ as program
from llama_operator import controller, poller
from llama_operator.kube import Kind, Kubernetes
from llama_operator.names import REQUEST_ANNOTATION, Manifest
from llama_operator.restart import choice
from llama_operator.runtime_status import Reading, Unknown, parse_runtime_status
from llama_operator.settings import parse_settings

SCRIPT = Path(os.environ["SCRIPT"])


def now() -> datetime:
    try:
        ahead = float((SCRIPT / "clock").read_text())
    except (OSError, ValueError):
        ahead = 0.0
    return datetime.now(UTC) + timedelta(seconds=ahead)


async def ask(session: Any, ip: str) -> Reading:
    try:
        answers = json.loads((SCRIPT / "runtimes.json").read_text())
    except (OSError, ValueError):
        return Unknown.NO_ANSWER
    return (
        parse_runtime_status(json.dumps(answers[ip]).encode())
        if ip in answers
        else (Unknown.NO_ANSWER)
    )


def die_at(point: str) -> None:
    """SIGKILL, once, when the test asked for it here."""
    file = SCRIPT / "die"
    if file.exists() and file.read_text() == point:
        file.unlink()
        os.kill(os.getpid(), signal.SIGKILL)


class MortalKubernetes(Kubernetes):
    """The real client. It dies before or after the first write of a kind."""

    async def apply(self, kind: Kind, manifest: Manifest, subresource: str = "") -> Manifest:
        run = manifest.get("status", {}).get("restart", {}).get("run", {})
        states = [entry["state"] for entry in run.get("pods", ())]
        step = "turn" if states == ["Asked"] else "answer" if states[:1] == ["Done"] else ""
        die_at(f"before {step}")
        written = await super().apply(kind, manifest, subresource)
        die_at(f"after {step}")
        return written

    async def merge(self, kind: Kind, namespace: str, name: str, body: Manifest) -> Manifest:
        asks = body["metadata"]["annotations"].get(REQUEST_ANNOTATION) is not None
        step = "request" if asks else "clearing"
        die_at(f"before {step}")
        written = await super().merge(kind, namespace, name, body)
        die_at(f"after {step}")
        return written

    async def evict(self, namespace: str, name: str, uid: str) -> None:
        die_at("before eviction")
        await super().evict(namespace, name, uid)
        die_at("after eviction")

    async def create(self, kind: Kind, manifest: Manifest) -> Manifest:
        step = "pod" if kind.kind == "Pod" else ""
        die_at(f"before {step}")
        written = await super().create(kind, manifest)
        die_at(f"after {step}")
        return written


if __name__ == "__main__":
    setattr(program, "Kubernetes", MortalKubernetes)  # noqa: B010 - for the type checker
    setattr(controller, "ask", ask)  # noqa: B010
    setattr(poller, "READY_SECONDS", 0.3)  # noqa: B010
    setattr(choice, "SETTLE", timedelta(seconds=1))  # noqa: B010
    sys.exit(asyncio.run(program.run(parse_settings(), now)))
