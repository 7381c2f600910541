"""What cures give back and what a restart keeps, on the runtime's engine alone.

A program of its own: it loads the model into its process. Prints one round as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from llama_runtime.engine import load_engine
from llama_runtime.engine.stream import Request
from llama_runtime.generation import Generation, Sampling, Token
from llama_runtime.settings import Settings
from tests.runtime.engine.driver import Driver

OTHERS, PROMPT_TOKENS = 15, 500
WARM_UP, WINDOW, TURN = 20, 64, 8
CONVERSATION_TOKENS = 900
STOP_SECONDS = 60


def main() -> None:
    """Measure one round and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--threads", type=int, required=True)
    arguments = parser.parse_args()
    settings = Settings(
        model_path=arguments.model,
        engine_threads=arguments.threads,
        kv_layout="Unified",
        kv_context_per_sequence=1024,
    )
    print(json.dumps({**_cures(settings), **asyncio.run(_restart(settings))}))


def _cures(settings: Settings) -> dict[str, float]:
    """Tokens per second of a sequence: alone, behind 15 that are gone, and after Compact."""
    fresh, driver = Driver(settings), Driver(settings)
    alone = fresh.submit(_prompt(0), 4 * WINDOW, ignore_eos=True)
    _until(fresh, alone, WARM_UP)
    others = [
        driver.submit(_prompt(seed), 500, ignore_eos=True, cache_prompt=False)
        for seed in range(1, OTHERS + 1)
    ]
    for other in others:
        _until(driver, other, 1)
    survivor = driver.submit(_prompt(0), 4 * WINDOW, ignore_eos=True)
    _until(driver, survivor, WARM_UP)
    for other in others:
        other.cancel()
    driver.scheduler.step()
    driver.scheduler.step()
    measured = {}
    pair = ((fresh, alone), (driver, survivor))
    measured["fresh_first"], measured["fragmented"] = _speeds(pair)
    cures = driver.scheduler.cures
    compact = cures.compact("Request")
    measured["fresh_second"], measured["compacted"] = _speeds(pair)
    measured |= {
        "span_before": compact.before.span,
        "span_after": compact.after.span,
        "compacted_bytes": compact.after.bytes or 0,
        "compact_seconds": compact.seconds,
        "rebuild_seconds": cures.rebuild("Request").seconds,
    }
    survivor.cancel()
    driver.scheduler.step()
    measured["clear_seconds"] = cures.compact("Request").seconds
    driver.close()
    fresh.close()
    return measured


async def _restart(settings: Settings) -> dict[str, float]:
    """Seconds to the first token of a conversation that goes on, with and without its cache."""
    conversation = tuple(random.Random(1).choices(range(100, 40_000), k=CONVERSATION_TOKENS))
    turn = tuple(random.Random(2).choices(range(100, 40_000), k=30))
    measured = {}
    with tempfile.TemporaryDirectory() as directory:
        for name in ("first", "kept", "lost"):
            changes = {"kv_keep_directory": Path(directory), "kv_keep_over_restart": name != "lost"}
            engine = load_engine(settings.model_copy(update=changes), lambda progress: None)
            prompt = conversation if name == "first" else (*conversation, *turn)
            started = time.monotonic()
            stream = engine.submit(Generation(prompt, 2, Sampling(temperature=0), ignore_eos=True))
            times = [time.monotonic() async for item in stream if isinstance(item, Token)]
            measured[f"{name}_first_token_seconds"] = times[0] - started
            if engine.restored is not None:
                measured[f"{name}_restore_seconds"] = engine.restored.seconds
            await asyncio.to_thread(engine.close, STOP_SECONDS)
            if engine.kept is not None:
                measured[f"{name}_keep_seconds"] = engine.kept.seconds
                measured[f"{name}_keep_bytes"] = engine.kept.bytes
    return measured


def _prompt(seed: int) -> list[int]:
    return random.Random(seed).choices(range(100, 40_000), k=PROMPT_TOKENS)


def _until(driver: Driver, request: Request, tokens: int) -> None:
    while len(driver.tokens(request)) < tokens:
        driver.scheduler.step()


def _speeds(pair: Sequence[tuple[Driver, Request]]) -> list[float]:
    """Tokens per second of each, from short turns: others on the machine disturb both alike."""
    seconds = [0.0 for _ in pair]
    for _ in range(WINDOW // TURN):
        for index, (driver, request) in enumerate(pair):
            target = len(driver.tokens(request)) + TURN
            started = time.monotonic()
            _until(driver, request, target)
            seconds[index] += time.monotonic() - started
    return [WINDOW / taken for taken in seconds]


if __name__ == "__main__":
    main()
