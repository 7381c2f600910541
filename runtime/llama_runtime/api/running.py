"""The generations behind one request: submit them all, follow them, cancel what is left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from llama_runtime.api.text import Increment, Transcript
from llama_runtime.generation import (
    Client,
    Engine,
    Finished,
    Generation,
    Timings,
    Token,
    TokenStream,
)


@dataclass
class Choice:
    """One answer as it grows; ``finish_reason`` is None until it ends."""

    index: int
    stream: TokenStream
    transcript: Transcript
    finish_reason: str | None = None
    text: str = ""
    tokens: list[tuple[Token, int]] = field(default_factory=list)

    @property
    def timings(self) -> Timings:
        return self.stream.timings

    @property
    def prompt_scores(self) -> tuple[Token, ...]:
        """There with the first increment."""
        return self.stream.prompt_scores

    async def increments(self) -> AsyncGenerator[Increment, None]:
        """Text as it becomes safe to send; the last one comes with a finish_reason."""
        async for item in self.stream:
            if isinstance(item, Finished):
                self.finish_reason = item.reason
                break
            increment = self.transcript.add(item)
            if self.transcript.stopped:
                self.finish_reason = "stop"
                self.stream.finish()
                yield self._keep(increment, self.finish_reason)
                return
            if increment:
                yield self._keep(increment)
        increment = self.transcript.finish()
        if self.transcript.stopped:
            self.finish_reason = "stop"
        yield self._keep(increment, self.finish_reason)

    def _keep(self, increment: Increment, finish_reason: str | None = None) -> Increment:
        self.text += increment.text
        self.tokens += increment.tokens
        return replace(increment, finish_reason=finish_reason) if finish_reason else increment


class Run:
    """All choices of a request; use as ``async with``: leaving cancels what still runs."""

    def __init__(
        self, choices: Sequence[Choice], observe: Callable[[Timings], None] | None = None
    ) -> None:
        """``observe`` gets the timings of each generation that came to its end."""
        self.choices = choices
        self._observe = observe

    async def __aenter__(self) -> Run:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        for choice in self.choices:
            await choice.stream.aclose()
            if self._observe and choice.finish_reason is not None:
                self._observe(choice.timings)

    async def follow(self) -> AsyncGenerator[tuple[Choice, Increment], None]:
        """The increments of all choices as they come; raises what the first failure raised."""
        if len(self.choices) == 1:
            only = self.choices[0]
            async with aclosing(only.increments()) as increments:
                async for increment in increments:
                    yield only, increment
            return
        queue: asyncio.Queue[tuple[Choice, Increment] | Exception | None] = asyncio.Queue()
        tasks = [asyncio.create_task(_pump(choice, queue)) for choice in self.choices]
        try:
            running = len(tasks)
            while running:
                item = await queue.get()
                if isinstance(item, Exception):
                    raise item
                if item is None:
                    running -= 1
                else:
                    yield item
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def complete(self) -> None:
        async with aclosing(self.follow()) as increments:
            async for _ in increments:
                pass


async def submit(
    engine: Engine,
    work: Sequence[tuple[Generation, Transcript]],
    observe: Callable[[Timings], None] | None = None,
    client: Client = ("", ""),
) -> Run:
    """Queues every generation or none of them; raises Rejected."""
    choices: list[Choice] = []
    try:
        for index, (generation, transcript) in enumerate(work):
            choices.append(
                Choice(index, engine.submit(replace(generation, client=client)), transcript)
            )
    except BaseException:
        await Run(choices).aclose()
        raise
    return Run(choices, observe)


async def _pump(
    choice: Choice, queue: asyncio.Queue[tuple[Choice, Increment] | Exception | None]
) -> None:
    try:
        async for increment in choice.increments():
            queue.put_nowait((choice, increment))
        queue.put_nowait(None)
    except Exception as error:
        queue.put_nowait(error)
