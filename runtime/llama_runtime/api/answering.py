"""What chat and text completions have in common, from the body to the answer."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from llama_runtime.api.body import read
from llama_runtime.api.running import Run, submit
from llama_runtime.api.sampling import nth_choice, sampling
from llama_runtime.api.schema import GenerationRequest
from llama_runtime.api.serving import ServedModel, served_model
from llama_runtime.api.sse import Event, EventStream, answer
from llama_runtime.api.text import Transcript
from llama_runtime.generation import Generation

Body = TypeVar("Body", bound=GenerationRequest)


@dataclass(frozen=True)
class Plan(ABC):
    """A request, ready to be generated: ``choices_per_prompt`` answers to each prompt."""

    model: ServedModel
    generations: tuple[Generation, ...]
    choices_per_prompt: int

    @property
    def shown(self) -> frozenset[int]:
        """Special tokens whose text is part of the answer."""
        return frozenset()

    @abstractmethod
    def answer(self, run: Run) -> dict[str, object]:
        """The body of an answer that came to its end."""

    @abstractmethod
    def events(self, run: Run) -> AsyncGenerator[Event, None]:
        """The chunks of a stream."""


async def respond(
    request: Request, schema: type[Body], plan_for: Callable[[Body, ServedModel], Plan]
) -> Response:
    """Reads, plans, submits and answers; ``plan_for`` raises APIError for what can't be done."""
    body = await read(request, schema)
    model = served_model(request)
    model.check_name(body.model)
    # Templates, tokenizers and grammars take their time: not on the event loop.
    plan = await asyncio.to_thread(plan_for, body, model)
    run = await submit(
        model.engine,
        [
            (each, Transcript(model.engine.vocabulary, body.stop or (), plan.shown))
            for each in plan.generations
        ],
        request.app.state.observer.generated,
        (request.state.who, body.user or ""),
    )
    if body.stream:
        return EventStream(plan.events(run), run)
    async with run:
        await answer(request, run.complete())
        # The logprobs of many tokens take their time too.
        return await asyncio.to_thread(lambda: JSONResponse(plan.answer(run)))


def generations(
    request: GenerationRequest,
    model: ServedModel,
    prompts: Sequence[tuple[int, ...]],
    *,
    grammar: str | None,
    grammar_param: str,
    logprobs: int | None,
    max_tokens: int | None,
    score_prompt: bool = False,
) -> tuple[Generation, ...]:
    """``n`` of each prompt, one after the other; raises APIError.

    ``grammar_param``: the parameter that the grammar came from.
    """
    count = request.n or 1
    model.check_choices(count * len(prompts))
    if grammar is not None:
        model.check_grammar(grammar, grammar_param)
    base = sampling(
        request,
        vocabulary_size=model.engine.vocabulary.size,
        grammar=grammar,
        logprobs=logprobs,
    )
    return tuple(
        Generation(
            prompt=prompt,
            max_tokens=max_tokens,
            sampling=nth_choice(base, index),
            ignore_eos=bool(request.ignore_eos),
            cache_prompt=request.cache_prompt is not False,
            score_prompt=score_prompt,
        )
        for prompt in prompts
        for index in range(count)
    )


def wants_usage(request: GenerationRequest) -> bool:
    """Whether a stream ends with a chunk of usage and no choices."""
    return bool(request.stream_options and request.stream_options.include_usage)
