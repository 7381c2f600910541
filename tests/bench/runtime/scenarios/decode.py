"""Decode alone, without HTTP: the engine against llama-batched-bench, the limit in C++."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

from tests.bench.figures import Figure, ratio, rounds
from tests.bench.runtime import llama_server
from tests.bench.runtime.bench import Bench
from tests.bench.runtime.load import BenchError
from tests.bench.runtime.servers import REPOSITORY, libllama

SEQUENCES = (1, 4, 8, 16)
PROMPT_TOKENS, GENERATED_TOKENS = 32, 96
TARGET = 0.95

Speeds = dict[int, float]
"""Tokens per second by number of sequences."""


def run(bench: Bench) -> list[Figure]:
    """Ratios for every quantization."""
    figures = []
    sequences = (16,) if bench.quick else SEQUENCES
    for quantization, model in bench.models.items():
        ours: list[Speeds] = []
        theirs: list[Speeds] = []
        for index in range(bench.rounds):
            ours.append(_engine(model, bench.size.threads, sequences))
            theirs.append(_batched_bench(model, bench.size.threads, sequences))
            bench.say(f"  round {index + 1}, {quantization}, decode alone")
        figures += [
            ratio(f"{quantization}, decode alone, {count} sequences, over llama-batched-bench",
                  rounds((speeds[count] for speeds in ours), "higher"),
                  rounds((speeds[count] for speeds in theirs), "higher"),
                  "llama-batched-bench", "tok/s", TARGET)
            for count in sequences
        ]  # fmt: skip
    return figures


def _engine(model: Path, threads: int, sequences: tuple[int, ...]) -> Speeds:
    output = _run(
        [sys.executable, "-m", "tests.bench.runtime.engine_decode", "--model", str(model),
         "--threads", str(threads), "--prompt", str(PROMPT_TOKENS),
         "--generate", str(GENERATED_TOKENS), "--sequences", *map(str, sequences)],
        {**os.environ, "PYTHONPATH": os.pathsep.join([str(REPOSITORY / "runtime"), *sys.path])},
        REPOSITORY,
    )  # fmt: skip
    return {int(count): speed for count, speed in json.loads(output.splitlines()[-1]).items()}


def _batched_bench(model: Path, threads: int, sequences: tuple[int, ...]) -> Speeds:
    output = _run(
        [str(llama_server.build() / "llama-batched-bench"), "--model", str(model),
         "--threads", str(threads), "--batch-size", "512", "--ctx-size",
         str(max(sequences) * (PROMPT_TOKENS + GENERATED_TOKENS)),
         "-npp", str(PROMPT_TOKENS), "-ntg", str(GENERATED_TOKENS),
         "-npl", ",".join(map(str, sequences)), "--output-format", "jsonl"],
        llama_server.environment(libllama()),
        libllama(),
    )  # fmt: skip
    return batched_bench_speeds(output)


def batched_bench_speeds(output: str) -> Speeds:
    """The generation speeds in what llama-batched-bench prints."""
    lines = (json.loads(line) for line in output.splitlines() if line.startswith("{"))
    return {line["pl"]: line["speed_tg"] for line in lines}


def speed_while_all_decode(times: list[list[float]]) -> float:
    """From the moment the last sequence has its first token to when the first one ends."""
    begin = max(own[0] for own in times)
    end = min(own[-1] for own in times)
    tokens = sum(
        begin <= before and after <= end for own in times for before, after in pairwise(own)
    )
    return tokens / (end - begin)


def _run(command: list[str], environment: dict[str, str], directory: Path) -> str:
    done = subprocess.run(command, env=environment, cwd=directory, capture_output=True, text=True)
    if done.returncode != 0:
        raise BenchError(f"{' '.join(command[:3])} failed: {done.stderr[-2000:]}")
    return done.stdout
