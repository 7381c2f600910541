"""make soak: mixed traffic in both layouts; a table, and build/bench/soak.json.

Each layout gets half of the time (ARGS="--minutes N", default 30). The first quarter of it is
the warm-up: caches fill, and memory grows to what the traffic needs.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import time
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import httpx
from rich.console import Console

from tests.bench import figures, report
from tests.bench.figures import Figure, percentile
from tests.bench.runtime.servers import REPOSITORY, RUNTIME, Server, Size, serving
from tests.bench.soak.probes import Probes, probing
from tests.bench.soak.traffic import Traffic

RESULT = REPOSITORY / "build/bench/soak.json"
SIZE = Size(sequences=8, context=1024)
CLIENTS = 20  # more than run and wait: some get 429
QUEUE_LIMIT = 8
SAMPLE_SECONDS = 2.0
IDLE_SECONDS = 300.0
IMAGE_ENVIRONMENT = {"MALLOC_ARENA_MAX": "2"}  # what the Dockerfile sets


@dataclass
class Soaked:
    """What was seen of one layout; memory in MiB."""

    layout: str
    traffic: Traffic
    probes: Probes
    resident: list[float]
    status: dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--layout", choices=("Partitioned", "Unified"), action="append")
    arguments = parser.parse_args()
    layouts = arguments.layout or ["Partitioned", "Unified"]
    console = Console(highlight=False)
    model = Path(os.environ["LLAMA_TEST_MODEL"])
    found: list[Figure] = []
    for layout in layouts:
        console.print(f"[dim]{layout}: {arguments.minutes / len(layouts):g} minutes")
        soaked = asyncio.run(soak(model, layout, arguments.minutes * 60 / len(layouts)))
        console.print(f"[dim]{dict(sorted(soaked.traffic.answers.items()))}")
        found += figures_of(soaked)
        figures.write(RESULT, found)
    console.print(report.table("The runtime under mixed traffic", found))
    raise SystemExit(any(figure.met is False for figure in found))


async def soak(model: Path, layout: str, seconds: float) -> Soaked:
    def command(*arguments: Any) -> list[str]:
        flags = ["--kv-layout", layout, "--server-queue-limit", str(QUEUE_LIMIT)]
        if layout == "Unified":
            flags += ["--kv-total-context", str(SIZE.sequences * SIZE.context // 2)]
        return [*RUNTIME.command(*arguments), *flags]

    def environment() -> dict[str, str]:
        return {**RUNTIME.environment(), **IMAGE_ENVIRONMENT}

    peer = replace(RUNTIME, command=command, environment=environment)
    with serving(peer, model, SIZE) as server:
        base = f"http://127.0.0.1:{server.port}"
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=base, timeout=600, limits=limits) as client:
            traffic = Traffic(client, random.Random(1))
            resident: list[float] = []
            with probing(server.management_port) as probes:
                sampling = asyncio.create_task(_sample(server, resident))
                await traffic.run(CLIENTS, time.monotonic() + seconds)
                sampling.cancel()
        status = await _idle_status(server)
    return Soaked(layout, traffic, probes, resident, status)


async def _sample(server: Server, resident: list[float]) -> None:
    while True:
        resident.append(server.resident_mib)
        await asyncio.sleep(SAMPLE_SECONDS)


async def _idle_status(server: Server) -> dict[str, Any]:
    """The status once nothing runs; the last one when something never ends."""
    async with httpx.AsyncClient(timeout=60) as client:
        give_up = time.monotonic() + IDLE_SECONDS
        while True:
            url = f"http://127.0.0.1:{server.management_port}/status"
            status: dict[str, Any] = (await client.get(url)).json()
            requests = status["requests"]
            if not (requests["running"] or requests["queued"]) or time.monotonic() > give_up:
                return status
            await asyncio.sleep(0.5)


def figures_of(soaked: Soaked) -> list[Figure]:
    kv = soaked.status["kv"]
    sequences = kv["sequences"]
    leaked = kv["maxSequences"] - sequences["free"] - sequences["cached"]
    quarter = max(len(soaked.resident) // 4, 1)
    tenth = max(len(soaked.resident) // 10, 1)
    warm = median(soaked.resident[quarter : quarter + tenth])
    last = median(soaked.resident[-tenth:])
    answers = sum(soaked.traffic.answers.values())

    def figure(name: str, value: float, unit: str, target: float | None, note: str) -> Figure:
        return Figure(f"{soaked.layout}: {name}", value, unit, "lower", target, note)

    seconds = [one for path in soaked.probes.seconds.values() for one in path]
    return [
        figure("memory at the end / after warm-up", last / warm, "x", 1.05,
               f"{warm:.0f} MiB, then {last:.0f} MiB; least {min(soaked.resident):.0f}, "
               f"most {max(soaked.resident):.0f}"),
        figure("sequences leaked", leaked, "", 0, f"{sequences}"),
        figure("unexpected answers", soaked.traffic.unexpected, "", 0, f"of {answers}"),
        *(
            figure(f"probes p{percent}", 1000 * percentile(seconds, percent), "ms",
                   100 if percent == 99 else None, _by_path(soaked.probes, percent))
            for percent in (50, 99, 100)
        ),
    ]  # fmt: skip


def _by_path(probes: Probes, percent: float) -> str:
    each = (
        f"{path} {1000 * percentile(values, percent):.0f}"
        for path, values in probes.seconds.items()
    )
    return f"of {len(probes.seconds['/healthz'])} each: {', '.join(each)}"


if __name__ == "__main__":
    main()
