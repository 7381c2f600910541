"""One client floods the server with long prompts: how long do four polite ones wait?"""

from __future__ import annotations

from tests.bench.figures import Figure, percentile, rounds
from tests.bench.runtime import texts
from tests.bench.runtime.bench import Bench
from tests.bench.runtime.load import Answer, Client, Step
from tests.bench.runtime.servers import LLAMA_SERVER, RUNTIME, Server

POLITE, REQUESTS, ANSWER_TOKENS, THINK = 4, 4, 16, 0.5
FLOOD_PROMPT_TOKENS, FLOOD_ANSWER_TOKENS, FLOOD_REQUESTS = 1000, 32, 20
FLOOD_ADDRESS, HEAD_START = "127.0.0.2", 2.0
IN_FLIGHT = {"half of the sequences": 8, "twice the sequences": 32}
"""How many requests the flooding client keeps in flight."""
TARGET = 3.0


def run(bench: Bench) -> list[Figure]:
    """The polite clients' p95 time to first token with the flood over that without."""
    quantization = next(iter(bench.models))
    floods = {"half of the sequences": 8} if bench.quick else IN_FLIGHT
    figures = []
    for peer in (RUNTIME,) if bench.quick else (RUNTIME, LLAMA_SERVER):
        results = bench.take_turns(
            (peer,),
            quantization,
            lambda server, seed: _measure(server, seed, floods),
            rounds=bench.rounds if peer is RUNTIME else 1,
        )[peer.name]
        calm = rounds((result["calm"] for result in results), "lower")
        for label, in_flight in floods.items():
            flooded = rounds((result[label] for result in results), "lower")
            figures.append(
                Figure(
                    name=f"{in_flight} long prompts of one client in flight: p95 time to "
                    f"first token of {POLITE} others, {peer.name}",
                    value=flooded.best / calm.best,
                    unit="x",
                    better="lower",
                    target=TARGET if peer is RUNTIME else None,
                    note=f"{label}: {flooded.describe('s')}; without: {calm.describe('s')}",
                )
            )
    return figures


def _measure(server: Server, seed: str, floods: dict[str, int]) -> dict[str, float]:
    """Seconds of the p95 by flood, and ``calm`` without one."""
    found = {"calm": _p95(server.run(*_polite(f"{seed}/calm", delay=0)))}
    for label, in_flight in floods.items():
        clients = [*_polite(f"{seed}/{label}", HEAD_START), *_flood(f"{seed}/{label}", in_flight)]
        found[label] = _p95(server.run(*clients))
    return found


def _polite(seed: str, delay: float) -> list[Client]:
    return [
        Client(
            name=f"polite-{index}",
            steps=tuple(
                Step(str(number), texts.question(f"{seed}/{index}/{number}"), ANSWER_TOKENS)
                for number in range(REQUESTS)
            ),
            delay=delay + index * THINK / POLITE,
            think=THINK,
        )
        for index in range(POLITE)
    ]


def _flood(seed: str, in_flight: int) -> list[Client]:
    return [
        Client(
            name="flood",
            steps=tuple(
                Step(str(number), texts.text(FLOOD_PROMPT_TOKENS, f"{seed}/{index}/{number}"),
                     FLOOD_ANSWER_TOKENS)
                for number in range(FLOOD_REQUESTS)
            ),
            background=True,
            address=FLOOD_ADDRESS,
        )
        for index in range(in_flight)
    ]  # fmt: skip


def _p95(answers: list[Answer]) -> float:
    return percentile([a.first_token_seconds for a in answers if a.client.startswith("polite")], 95)
