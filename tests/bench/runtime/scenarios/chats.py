"""More chats of many turns than there are sequences: what does a later turn cost?"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from tests.bench.figures import Figure, Rounds, percentile, ratio, rounds
from tests.bench.runtime import texts
from tests.bench.runtime.bench import Bench
from tests.bench.runtime.load import Answer, Client, Step
from tests.bench.runtime.servers import LLAMA_SERVER, RUNTIME, Server

CLIENTS, CHATS_EACH, TURNS = 4, 6, 4
FIRST_MESSAGE_TOKENS, ANSWER_TOKENS = 250, 32
TARGET = 1.0
EVICTIONS = "llama_runtime_prefix_evictions_total"


@dataclass(frozen=True, slots=True)
class Result:
    """Of the turns after a chat's first: seconds to the first token, and cached prompt tokens."""

    first_tokens: tuple[float, ...]
    cached: int
    prompt: int
    evictions: float | None = None
    """Cached chats that had to go, where the server counts them."""


def run(bench: Bench) -> list[Figure]:
    """Median and p95 of a later turn's time to first token."""
    quantization = next(iter(bench.models))
    results = bench.take_turns(
        (RUNTIME, LLAMA_SERVER),
        quantization,
        lambda server, seed: _measure(server, seed, 2 if bench.quick else TURNS),
    )
    figures = [
        ratio(
            f"{CLIENTS * CHATS_EACH} chats: {label} time to first token of a later turn, "
            "over llama-server",
            _percentiles(results[RUNTIME.name], percent),
            _percentiles(results[LLAMA_SERVER.name], percent),
            LLAMA_SERVER.name,
            "s",
            target,
        )
        for label, percent, target in (("median", 50, TARGET), ("p95", 95, None))
    ]
    return figures + [_hits(name, held[-1]) for name, held in results.items()]


def _measure(server: Server, seed: str, turns: int) -> Result:
    result = later_turns(server.run(*clients(seed, turns)))
    if server.peer is not RUNTIME:
        return result
    return replace(result, evictions=server.metric(EVICTIONS))


def clients(seed: str, turns: int) -> list[Client]:
    """Clients that each go to and fro between chats of their own, in a random order."""
    return [
        Client(f"client-{index}", tuple(_steps(f"{seed}/{index}", turns)))
        for index in range(CLIENTS)
    ]


def _steps(seed: str, turns: int) -> list[Step]:
    order = [f"chat-{number}" for number in range(CHATS_EACH)] * turns
    random.Random(seed).shuffle(order)
    steps: list[Step] = []
    begun: set[str] = set()
    for position, chat in enumerate(order):
        words = texts.question(f"{seed}/{position}")
        if chat not in begun:
            words = f"{texts.text(FIRST_MESSAGE_TOKENS, f'{seed}/{chat}')}. {words}"
        begun.add(chat)
        steps.append(Step(chat, words, ANSWER_TOKENS))
    return steps


def later_turns(answers: list[Answer]) -> Result:
    """The answers but the first of each chat."""
    seen: set[tuple[str, str]] = set()
    later = []
    for answer in sorted(answers, key=lambda answer: answer.started):
        chat = (answer.client, answer.chat)
        if chat in seen:
            later.append(answer)
        seen.add(chat)
    return Result(
        first_tokens=tuple(answer.first_token_seconds for answer in later),
        cached=sum(answer.cached_tokens or 0 for answer in later),
        prompt=sum(answer.prompt_tokens or 0 for answer in later),
    )


def _percentiles(results: list[Result], percent: float) -> Rounds:
    return rounds((percentile(result.first_tokens, percent) for result in results), "lower")


def _hits(name: str, result: Result) -> Figure:
    return Figure(
        name=f"{CLIENTS * CHATS_EACH} chats: prompt tokens of later turns from the cache, {name}",
        value=100 * result.cached / result.prompt,
        unit="%",
        better="higher",
        target=None,
        note=f"{result.cached} of {result.prompt} tokens in the last round"
        + ("" if result.evictions is None else f", {result.evictions:.0f} evictions"),
    )
