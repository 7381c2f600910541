"""Decode speed of the runtime's engine alone, without HTTP: what llama-batched-bench measures.

A program of its own: it loads the model into its process. Prints tokens per second by
number of sequences, as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from pathlib import Path

from llama_runtime.engine import load_engine
from llama_runtime.generation import Engine, Generation, Sampling, Token
from llama_runtime.settings import Settings
from tests.bench.runtime.scenarios.decode import speed_while_all_decode

STOP_SECONDS = 10


def main() -> None:
    """Load, measure each number of sequences, print, stop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--prompt", type=int, required=True, help="tokens of each prompt")
    parser.add_argument("--generate", type=int, required=True, help="tokens of each answer")
    parser.add_argument("--sequences", type=int, nargs="+", required=True)
    arguments = parser.parse_args()
    settings = Settings.from_arguments(
        ["--model-path", str(arguments.model), "--engine-threads", str(arguments.threads),
         "--kv-max-sequences", str(max(arguments.sequences)),
         "--kv-context-per-sequence", str(arguments.prompt + arguments.generate)]
    )  # fmt: skip
    engine = load_engine(settings, lambda progress: None)
    speeds = {
        sequences: asyncio.run(_speed(engine, sequences, arguments.prompt, arguments.generate))
        for sequences in arguments.sequences
    }
    engine.close(STOP_SECONDS)
    print(json.dumps(speeds))


async def _speed(engine: Engine, sequences: int, prompt: int, generate: int) -> float:
    """Tokens per second of all sequences while every one of them is decoding."""
    random_tokens = random.Random(sequences)
    times = await asyncio.gather(
        *(
            _token_times(
                engine,
                Generation(
                    prompt=tuple(random_tokens.choices(range(100, 40_000), k=prompt)),
                    max_tokens=generate,
                    sampling=Sampling(temperature=0),
                    ignore_eos=True,
                    cache_prompt=False,
                ),
            )
            for _ in range(sequences)
        )
    )
    return speed_while_all_decode(times)


async def _token_times(engine: Engine, generation: Generation) -> list[float]:
    return [time.monotonic() async for item in engine.submit(generation) if isinstance(item, Token)]


if __name__ == "__main__":
    main()
