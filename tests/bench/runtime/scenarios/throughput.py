"""64-token answers to 1, 4, 8 and 16 clients at once, and the memory that took."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.bench.figures import Figure, ratio, rounds
from tests.bench.runtime import load, texts
from tests.bench.runtime.bench import Bench
from tests.bench.runtime.load import Client, Step
from tests.bench.runtime.servers import LLAMA_CPP_SERVER, LLAMA_SERVER, RUNTIME, Server

PEERS = (RUNTIME, LLAMA_SERVER, LLAMA_CPP_SERVER)
ANSWER_TOKENS = 64
REQUESTS = {1: 6, 4: 3, 8: 3, 16: 2}
"""Requests of each client, by how many clients there are: some seconds of work."""
SPEED_NAME = re.compile(r"(\S+), (\d+) streams?: (.+)")
"""The name of a speed: quantization, streams, server."""
TARGETS = {
    (LLAMA_SERVER.name, 1): 0.97,
    (LLAMA_SERVER.name, 16): 1.0,
    (LLAMA_CPP_SERVER.name, 16): 4.0,
}


@dataclass(frozen=True, slots=True)
class Result:
    """Tokens per second by number of clients; resident MiB when loaded and when done."""

    speeds: dict[int, float]
    loaded_mib: float
    done_mib: float


def run(bench: Bench) -> list[Figure]:
    """Speeds and their ratios for every quantization; memory for the first."""
    figures: list[Figure] = []
    for index, quantization in enumerate(bench.models):
        results = bench.take_turns(
            PEERS, quantization, lambda server, seed: _measure(server, seed, bench.quick)
        )
        figures += speeds(quantization, results)
        if index == 0:
            figures += memory(quantization, results)
    return figures


def _measure(server: Server, seed: str, quick: bool) -> Result:
    loaded = server.resident_mib
    speeds = {}
    for streams, requests in REQUESTS.items():
        if quick and streams not in (1, 16):
            continue
        answers = server.run(*clients(streams, 1 if quick else requests, seed))
        speeds[streams] = load.tokens_per_second(answers)
    return Result(speeds, loaded, server.resident_mib)


def clients(streams: int, requests: int, seed: str) -> list[Client]:
    """Clients that each ask that many questions, all different."""
    return [
        Client(
            name=f"client-{index}",
            steps=tuple(
                Step(str(number), texts.question(f"{seed}/{streams}/{index}/{number}"),
                     ANSWER_TOKENS)
                for number in range(requests)
            ),
        )
        for index in range(streams)
    ]  # fmt: skip


def speeds(quantization: str, results: dict[str, list[Result]]) -> list[Figure]:
    by_peer = {
        name: {
            streams: rounds((result.speeds[streams] for result in held), "higher")
            for streams in held[0].speeds
        }
        for name, held in results.items()
    }
    figures = [
        Figure(
            name=f"{quantization}, {_streams(streams)}: {name}",
            value=speed.best,
            unit="tok/s",
            better="higher",
            target=None,
            note=speed.describe("tok/s"),
        )
        for name, speeds in by_peer.items()
        for streams, speed in speeds.items()
    ]
    ours = by_peer[RUNTIME.name]
    return figures + [
        ratio(f"{quantization}, {_streams(streams)}, over {name}", ours[streams],
              by_peer[name][streams], name, "tok/s", target)
        for (name, streams), target in TARGETS.items()
    ]  # fmt: skip


def memory(quantization: str, results: dict[str, list[Result]]) -> list[Figure]:
    def resident(name: str, moment: str) -> list[float]:
        return [getattr(result, moment) for result in results[name]]

    return [
        ratio(f"{quantization}, memory {when}, over llama-server",
              rounds(resident(RUNTIME.name, moment), "lower"),
              rounds(resident(LLAMA_SERVER.name, moment), "lower"),
              LLAMA_SERVER.name, "MiB resident", None)
        for when, moment in (("after load", "loaded_mib"), ("after the traffic", "done_mib"))
    ]  # fmt: skip


def _streams(count: int) -> str:
    return "1 stream" if count == 1 else f"{count} streams"
