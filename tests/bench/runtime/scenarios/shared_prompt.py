"""16 clients arrive together with the same 1,000-token system prompt and different questions."""

from __future__ import annotations

from tests.bench.figures import Figure, ratio, rounds
from tests.bench.runtime import texts
from tests.bench.runtime.bench import Bench
from tests.bench.runtime.load import Client, Step
from tests.bench.runtime.servers import LLAMA_SERVER, RUNTIME, Server

CLIENTS, SYSTEM_TOKENS, ANSWER_TOKENS = 16, 1000, 8
TARGET = 0.2


def run(bench: Bench) -> list[Figure]:
    """The time until all have their first token."""
    quantization = next(iter(bench.models))
    results = bench.take_turns((RUNTIME, LLAMA_SERVER), quantization, _measure)
    return [
        ratio("shared system prompt: time until all 16 have a token, over llama-server",
              rounds(results[RUNTIME.name], "lower"), rounds(results[LLAMA_SERVER.name], "lower"),
              LLAMA_SERVER.name, "s", TARGET)
    ]  # fmt: skip


def _measure(server: Server, seed: str) -> float:
    system = texts.text(SYSTEM_TOKENS, f"{seed}/system")
    clients = [
        Client(
            name=f"client-{index}",
            steps=(Step("", texts.question(f"{seed}/{index}"), ANSWER_TOKENS, system),),
        )
        for index in range(CLIENTS)
    ]
    answers = server.run(*clients)
    return max(a.times[0] for a in answers) - min(a.started for a in answers)
