"""A scheduler without its thread: tests drive it step by step."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest

from llama_runtime.engine.context import Context
from llama_runtime.engine.grammar import Grammars
from llama_runtime.engine.model import LoadedModel, load_model
from llama_runtime.engine.scheduler import Scheduler
from llama_runtime.engine.stream import Item, Request
from llama_runtime.engine.thread_pool import ThreadPool
from llama_runtime.engine.validation import tokens_to_generate
from llama_runtime.generation import EngineFailed, Finished, Generation, Sampling, Token
from llama_runtime.settings import Settings

GREEDY = Sampling(temperature=0)

both_layouts = pytest.mark.parametrize("layout", ["Partitioned", "Unified"])


def prompt(seed: int, length: int) -> list[int]:
    """Tokens of the tiny model, the same for a seed."""
    return random.Random(seed).choices(range(63), k=length)


def tiny_settings(path: Path, **changes: Any) -> Settings:
    """Four sequences of 256 tokens, computed by one thread in batches of 64."""
    defaults: dict[str, Any] = {
        "model_path": path,
        "kv_max_sequences": 4,
        "kv_context_per_sequence": 256,
        "engine_batch_size": 64,
        "engine_micro_batch_size": 64,
        "engine_threads": 1,
    }
    return Settings(**{**defaults, **changes})


class Driver:
    """Submits requests to a scheduler and keeps what it delivers."""

    def __init__(self, settings: Settings, context_class: type[Context] = Context) -> None:
        self.settings = settings
        self.model: LoadedModel = load_model(settings, lambda progress: None)
        self.pool = ThreadPool(settings.engine_threads or 1)
        self._grammars = Grammars(self.model.vocabulary)
        self.delivered: dict[Request, list[Item]] = {}
        self.scheduler = Scheduler(
            lambda: context_class(self.model, settings, self.pool),
            self.model,
            self._deliver,
            settings.kv_host_cache,
        )
        self._loop = asyncio.new_event_loop()

    def close(self) -> None:
        self._loop.close()
        self.scheduler.close()
        self.pool.close()
        self.model.close()

    def submit(
        self,
        prompt: Sequence[int],
        max_tokens: int | None = 8,
        sampling: Sampling = GREEDY,
        **generation: Any,
    ) -> Request:
        wanted = Generation(tuple(prompt), max_tokens, sampling, **generation)
        size = self.model.vocabulary.size
        request = Request(
            wanted,
            tokens_to_generate(wanted, size, self.settings.kv_context_per_sequence),
            None if sampling.grammar is None else self._grammars.start(sampling.grammar),
            self._loop,
            self._cancelled,
        )
        self.delivered[request] = []
        self.scheduler.queue.append(request)
        return request

    def run(self, most_steps: int = 5000) -> int:
        """Step until nothing runs or waits; the number of steps."""
        for steps in range(most_steps):
            if self.scheduler.idle:
                return steps
            self.scheduler.step()
        raise AssertionError(f"Still busy after {most_steps} steps.")

    def step_until_admitted(self, request: Request) -> None:
        while request.admitted is None:
            self.scheduler.step()

    def tokens(self, request: Request) -> list[int]:
        return [item.id for item in self.delivered[request] if isinstance(item, Token)]

    def end(self, request: Request) -> Finished | EngineFailed | None:
        """How the request ended; None while it runs, or when it was cancelled."""
        items = self.delivered[request]
        last = items[-1] if items else None
        return None if isinstance(last, Token) else last

    def check(self) -> None:
        """Every sequence is free, cached or running, and the account agrees with llama.cpp."""
        kv, running = self.scheduler.kv, self.scheduler.running
        ids = [
            *kv.free,
            *(cached.id for cached in kv.cached),
            *(sequence.id for sequence in running),
        ]
        assert sorted(ids) == list(range(self.settings.kv_max_sequences))
        lengths = {
            **dict.fromkeys(kv.free, 0),
            **{cached.id: len(cached.tokens) for cached in kv.cached},
            **{sequence.id: sequence.computed for sequence in running},
        }
        for sequence, length in lengths.items():
            assert kv.account.length(sequence) == length
            expected = (0, length - 1) if length else (-1, -1)
            assert kv.context.position_range(sequence) == expected
        if not kv.context.unified:
            assert kv.account.used == sum(lengths.values())
        held = list(kv.host._sequences.values())
        assert kv.host.bytes == sum(one.bytes for one in held) <= kv.host.limit
        assert kv.account.used <= kv.account.span <= kv.account.capacity

    def _deliver(self, request: Request, item: Item) -> None:
        assert self.end(request) is None, "delivered after the end"
        self.delivered[request].append(item)

    def _cancelled(self) -> None:
        self.scheduler.cancellations_pending = True


def sick_at(outputs: int) -> type[Context]:
    """A context whose second line of logits is no number in steps with so many outputs."""

    class Sick(Context):
        def logits(self, count: int) -> Any:
            rows = super().logits(count)
            if count == outputs:
                rows[1] = float("nan")
            return rows

    return Sick


class Drive(Protocol):
    """What the fixture `drive` gives."""

    def __call__(self, context_class: type[Context] = Context, **settings: Any) -> Driver: ...
