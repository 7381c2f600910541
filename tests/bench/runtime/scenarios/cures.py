"""What a cure gives back, and what a restart keeps: the engine against itself, without HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.bench.figures import Better, Figure, Rounds, ratio, rounds
from tests.bench.runtime.bench import Bench
from tests.bench.runtime.load import BenchError
from tests.bench.runtime.servers import REPOSITORY

TARGET = 0.98

Round = dict[str, float]


def run(bench: Bench) -> list[Figure]:
    """Ratios and times for one quantization; a cure has nothing to do with the weights."""
    quantization, model = next(iter(bench.models.items()))
    measured: list[Round] = []
    for index in range(bench.rounds):
        measured.append(measure(model, bench.size.threads))
        bench.say(f"  round {index + 1}, {quantization}, cures")
    return figures(quantization, measured)


def figures(quantization: str, measured: list[Round]) -> list[Figure]:
    """What is shown of the rounds."""

    def values(key: str, better: Better = "higher") -> Rounds:
        return rounds((one[key] for one in measured), better)

    def seconds(name: str, key: str, note: str) -> Figure:
        taken = values(key, "lower")
        return Figure(f"{quantization}, {name}", taken.best * 1000, "ms", "lower", None, note)

    last, of = measured[-1], f"{quantization}, Unified"
    cells = f"{last['span_before']:.0f} to {last['span_after']:.0f} cells"
    return [
        ratio(f"{of}, one sequence behind 15 that are gone, over a fresh context",
              values("fragmented"), values("fresh_first"), "a fresh context", "tok/s", None),
        ratio(f"{of}, after Compact, over a fresh context at the same depth",
              values("compacted"), values("fresh_second"), "a fresh context", "tok/s", TARGET),
        seconds("Compact", "compact_seconds",
                f"{cells}, {last['compacted_bytes'] / 2**20:.0f} MiB"),
        seconds("Rebuild", "rebuild_seconds", "without the tokens to compute again"),
        seconds("Clear", "clear_seconds", "an empty cache"),
        ratio(f"{quantization}, first token of a known chat after a restart, kept over lost",
              values("kept_first_token_seconds", "lower"),
              values("lost_first_token_seconds", "lower"), "an empty cache", "s", None),
        seconds("keeping a conversation at the end", "first_keep_seconds",
                f"{last['first_keep_bytes'] / 2**20:.0f} MiB"),
        seconds("restoring it at the start", "kept_restore_seconds", ""),
    ]  # fmt: skip


def measure(model: Path, threads: int) -> Round:
    """One round, in a process of its own: seconds and tokens per second by name."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.runtime.engine_cures", "--model", str(model),
         "--threads", str(threads)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(REPOSITORY / "runtime"), *sys.path])},
        cwd=REPOSITORY, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise BenchError(f"The cures could not be measured: {done.stderr[-2000:]}")
    found: Round = json.loads(done.stdout.splitlines()[-1])
    return found
