"""One measurement: the runtime's engine with its CPUs and its memory on given NUMA nodes.

A program of its own, which imports nothing but the runtime: it binds itself, starts anew so
that every page is placed under the binding, loads the model without mmap, decodes and prints
what it measured as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from llama_runtime.engine import load_engine
from llama_runtime.generation import Engine, Generation, Sampling, Token
from llama_runtime.numa.binding import error_name, set_affinity, set_memory_policy
from llama_runtime.numa.pages import read_pages
from llama_runtime.numa.topology import parse_list
from llama_runtime.settings import Settings

BOUND = "NUMA_BENCH_BOUND"


def main() -> None:
    """Bind, start anew, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--cpus", type=parse_list, required=True, help="such as 0-15")
    parser.add_argument("--memory-node", type=int, required=True)
    parser.add_argument("--generate", type=int, default=64, help="tokens")
    arguments = parser.parse_args()
    if BOUND not in os.environ:
        set_affinity(arguments.cpus)
        if refused := set_memory_policy(arguments.memory_node):
            raise SystemExit(
                f"The kernel refuses a memory policy ({error_name(refused)}): run as root or with "
                "CAP_SYS_NICE."
            )
        os.environ[BOUND] = "yes"
        os.execv(sys.executable, [sys.executable, *sys.argv])
    print(json.dumps(measure(arguments.model, len(arguments.cpus), arguments.generate)))


def measure(model: Path, threads: int, generate: int) -> dict[str, Any]:
    """Seconds to load, tokens a second of one sequence, MiB of pages by node."""
    settings = Settings.from_arguments(
        ["--model-path", str(model), "--engine-threads", str(threads), "--no-engine-mmap",
         "--kv-max-sequences", "1", "--kv-context-per-sequence", str(generate + 64)]
    )  # fmt: skip
    began = time.monotonic()
    engine = load_engine(settings, lambda progress: None)
    seconds = time.monotonic() - began
    times = asyncio.run(decode(engine, generate))
    pages = read_pages() or {}
    engine.close(10)
    return {
        "loadSeconds": seconds,
        "tokensPerSecond": (len(times) - 1) / (times[-1] - times[0]),
        "pagesMiB": {str(node): kib / 1024 for node, kib in pages.items()},
    }


async def decode(engine: Engine, tokens: int) -> list[float]:
    """When each token came."""
    generation = Generation(
        prompt=tuple(range(100, 132)),
        max_tokens=tokens,
        sampling=Sampling(temperature=0),
        ignore_eos=True,
        cache_prompt=False,
    )
    return [time.monotonic() async for item in engine.submit(generation) if isinstance(item, Token)]


if __name__ == "__main__":
    main()
