"""A 4,000-token prompt arrives among 8 running streams: how long do they stand still?"""

from __future__ import annotations

from dataclasses import dataclass

from tests.bench.figures import Figure, percentile, ratio, rounds
from tests.bench.runtime import load, texts
from tests.bench.runtime.bench import Bench
from tests.bench.runtime.load import Answer, Client, Step
from tests.bench.runtime.servers import LLAMA_SERVER, LLAMA_SERVER_512, RUNTIME, Server

STREAMS, STREAM_TOKENS = 8, 192
PROMPT_TOKENS, ANSWER_TOKENS, ARRIVES = 4000, 16, 1.5


@dataclass(frozen=True, slots=True)
class Result:
    """Seconds of the p99 gap; tokens per second; seconds to the long prompt's first token."""

    gap: float
    speed: float
    first_token: float


def run(bench: Bench) -> list[Figure]:
    """Ours against llama-server as it comes, and with our batch size."""
    quantization = next(iter(bench.models))
    peers = (RUNTIME, LLAMA_SERVER) if bench.quick else (RUNTIME, LLAMA_SERVER, LLAMA_SERVER_512)
    results = bench.take_turns(peers, quantization, _measure)
    ours = results[RUNTIME.name]
    figures = []
    for peer in peers[1:]:
        theirs = results[peer.name]
        promised = peer is LLAMA_SERVER
        figures += [
            ratio(f"long prompt: p99 gap between tokens, over {peer.name}",
                  rounds((result.gap for result in ours), "lower"),
                  rounds((result.gap for result in theirs), "lower"),
                  peer.name, "s", 0.5 if promised else None),
            ratio(f"long prompt: total throughput, over {peer.name}",
                  rounds((result.speed for result in ours), "higher"),
                  rounds((result.speed for result in theirs), "higher"),
                  peer.name, "tok/s", 0.95 if promised else None),
            ratio(f"long prompt: time to its own first token, over {peer.name}",
                  rounds((result.first_token for result in ours), "lower"),
                  rounds((result.first_token for result in theirs), "lower"),
                  peer.name, "s", None),
        ]  # fmt: skip
    return figures


def _measure(server: Server, seed: str) -> Result:
    streams = [
        Client(f"stream-{index}", (Step("", texts.question(f"{seed}/{index}"), STREAM_TOKENS),))
        for index in range(STREAMS)
    ]
    prompt = Step("", texts.text(PROMPT_TOKENS, f"{seed}/long"), ANSWER_TOKENS)
    return _result(server.run(*streams, Client("long", (prompt,), delay=ARRIVES)))


def _result(answers: list[Answer]) -> Result:
    long = next(answer for answer in answers if answer.client == "long")
    gaps = gaps_within(
        [answer for answer in answers if answer is not long], long.started, long.times[0]
    )
    work = PROMPT_TOKENS + sum(answer.generated for answer in answers)
    return Result(
        gap=percentile(gaps, 99),
        speed=work / load.duration(answers),
        first_token=long.first_token_seconds,
    )


def gaps_within(answers: list[Answer], begin: float, end: float) -> list[float]:
    """Seconds of every wait between two tokens that overlaps that time."""
    return [
        second - first
        for answer in answers
        for first, second in answer.gaps
        if second > begin and first < end
    ]
