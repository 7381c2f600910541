"""A pod whose unified KV cache is mostly holes, for as long as somebody streams behind them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import openai
from openai.types import Completion
from tests.e2e.deployment import Deployment

OTHERS = 7
PROMPT_WORDS, SURVIVOR_TOKENS = 1200, 3000


@dataclass
class Outcome:
    """What went wrong with the streams behind the holes."""

    broken: list[str] = field(default_factory=list)


@contextmanager
def fragmented(deployment: Deployment, pod: dict[str, Any]) -> Iterator[Outcome]:
    """Again and again: seven long sequences come and go, and a short one goes on behind them."""
    outcome, stop = Outcome(), threading.Event()
    client = openai.OpenAI(
        base_url=f"http://{pod['status']['podIP']}:8080/v1",
        api_key="unused",
        max_retries=0,
        timeout=600,
    )

    def stream(prompt: str, tokens: int) -> openai.Stream[Completion]:
        return client.completions.create(
            model=deployment.name,
            prompt=prompt,
            max_tokens=tokens,
            temperature=0,
            stream=True,
            extra_body={"ignore_eos": True, "cache_prompt": False},
        )

    def go_round(pool: ThreadPoolExecutor) -> None:
        others = [stream(f"{index} " + "sea " * PROMPT_WORDS, 400) for index in range(OTHERS)]
        list(pool.map(next, others))  # All of them are in the cache before the one that stays.
        survivor = stream("The moon", SURVIVOR_TOKENS)
        next(survivor)
        for other in others:
            other.close()
        for _ in survivor:
            if stop.is_set():
                break
        survivor.close()

    def run() -> None:
        with ThreadPoolExecutor(OTHERS) as pool:
            while not stop.is_set():
                try:
                    go_round(pool)
                except Exception as error:
                    outcome.broken.append(f"{type(error).__name__}: {error}")
                    return

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield outcome
    finally:
        stop.set()
        thread.join()
