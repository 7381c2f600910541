"""What clients ask of a server and what they saw: the job and the answers of one load."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any


class BenchError(Exception):
    """A server did not do what the bench needs; the sentence says which and what."""


@dataclass(frozen=True, slots=True)
class Step:
    """One message in a chat. Steps of the same chat build on its earlier answers."""

    chat: str
    message: str
    max_tokens: int
    system: str | None = None


@dataclass(frozen=True, slots=True)
class Client:
    """Sends its steps one after another, each when the one before is answered.

    Times in seconds: ``delay`` before the first step, ``think`` before each other one.
    A background client ends when the last other one has: what it had not finished is no
    answer. ``address`` is the loopback address it connects from.
    """

    name: str
    steps: tuple[Step, ...]
    delay: float = 0.0
    think: float = 0.0
    background: bool = False
    address: str = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Job:
    """The clients of one load and the server they ask."""

    port: int
    clients: tuple[Client, ...]
    extra: dict[str, Any] = field(default_factory=dict)
    """Fields for every request beside the common ones."""
    timeout: float = 600.0


@dataclass(frozen=True, slots=True)
class Answer:
    """One answered step; times in seconds of one clock, ``times`` those of each text event."""

    client: str
    chat: str
    started: float
    times: tuple[float, ...]
    generated: int
    prompt_tokens: int | None
    cached_tokens: int | None
    text: str

    @property
    def first_token_seconds(self) -> float:
        return self.times[0] - self.started

    @property
    def ended(self) -> float:
        return self.times[-1]

    @property
    def gaps(self) -> tuple[tuple[float, float], ...]:
        """Begin and end of each wait between two text events."""
        return tuple(pairwise(self.times))


def run(job: Job) -> list[Answer]:
    """Run the clients in a process of their own; raises BenchError when an answer is wrong."""
    process = subprocess.run(
        [sys.executable, "-m", "tests.bench.runtime.client"],
        input=json.dumps(asdict(job)),
        capture_output=True,
        text=True,
    )
    if process.returncode != 0:
        raise BenchError(process.stderr.strip() or "The client process failed.")
    return [
        Answer(**{**item, "times": tuple(item["times"])}) for item in json.loads(process.stdout)
    ]


def job_from(document: dict[str, Any]) -> Job:
    """The job that ``run`` wrote."""
    clients = tuple(
        Client(**{**client, "steps": tuple(Step(**step) for step in client["steps"])})
        for client in document["clients"]
    )
    return Job(**{**document, "clients": clients})


def duration(answers: Sequence[Answer]) -> float:
    """Seconds from the first request to the last token."""
    return max(a.ended for a in answers) - min(a.started for a in answers)


def tokens_per_second(answers: Sequence[Answer]) -> float:
    """Generated tokens of all answers over the time they took together."""
    return sum(answer.generated for answer in answers) / duration(answers)
