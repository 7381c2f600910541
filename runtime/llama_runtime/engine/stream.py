"""One request on its way between the event loop and the engine's thread."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

import numpy as np

from llama_runtime.engine.grammar import Grammar
from llama_runtime.generation import EngineFailed, Finished, Generation, Timings, Token

Item = Token | Finished | EngineFailed


class Request:
    """What both sides know of one generation.

    The engine's thread writes the counts, times and scores, the event loop the items; a
    cancellation may come from any thread.
    """

    def __init__(
        self,
        generation: Generation,
        max_tokens: int,
        grammar: Grammar | None,
        loop: asyncio.AbstractEventLoop,
        on_cancel: Callable[[], None],
    ) -> None:
        self.generation = generation
        self.client = generation.client
        self.prompt = np.array(generation.prompt, np.int32)
        self.max_tokens = max_tokens
        self.grammar = grammar
        self.loop = loop
        self._on_cancel = on_cancel
        self.cancelled = False
        self.is_complete = False
        self.cached_tokens = 0
        self.predicted_tokens = 0
        self.prompt_scores: tuple[Token, ...] = ()
        self.submitted = time.monotonic()
        self.admitted: float | None = None
        self.first_token: float | None = None
        self.ended: float | None = None
        self.items: deque[Item] = deque()
        self.arrival: asyncio.Event = asyncio.Event()

    @property
    def promised(self) -> int:
        """Cells that this request may come to need."""
        return len(self.prompt) + self.max_tokens

    @property
    def takes_prefix(self) -> bool:
        """Whether tokens may come from the cache, where they have no logits to score by."""
        return self.generation.cache_prompt and not self.generation.score_prompt

    def cancel(self) -> None:
        self.cancelled = True
        self._on_cancel()

    def finish(self) -> None:
        """A cancellation after which the sequence is worth keeping."""
        self.is_complete = True
        self.cancel()

    def deliver(self, item: Item) -> None:
        """On the event loop only."""
        self.items.append(item)
        self.arrival.set()

    @property
    def timings(self) -> Timings:
        now = self.ended or time.monotonic()
        admitted = self.admitted or now
        first = self.first_token or now
        return Timings(
            cached_tokens=self.cached_tokens,
            prompt_tokens=len(self.prompt),
            predicted_tokens=self.predicted_tokens,
            queue_seconds=admitted - self.submitted,
            prompt_seconds=first - admitted,
            predicted_seconds=now - first,
        )


class RequestStream:
    """The TokenStream of one request; forgetting it cancels the request."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._over = False

    def __aiter__(self) -> RequestStream:
        return self

    async def __anext__(self) -> Token | Finished:
        if self._over:
            raise StopAsyncIteration
        request = self._request
        while not request.items:
            request.arrival.clear()
            await request.arrival.wait()
            if self._over:
                raise StopAsyncIteration
        item = request.items.popleft()
        if isinstance(item, Token):
            return item
        self._over = True
        if isinstance(item, EngineFailed):
            raise item
        return item

    def finish(self) -> None:
        if not self._over:
            self._over = True
            self._request.finish()

    async def aclose(self) -> None:
        self._end()

    @property
    def timings(self) -> Timings:
        return self._request.timings

    @property
    def prompt_scores(self) -> tuple[Token, ...]:
        return self._request.prompt_scores

    def _end(self) -> None:
        if not self._over:
            self._over = True
            self._request.cancel()

    def __del__(self) -> None:
        self._end()
