"""POST /v1/completions."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from llama_runtime.api.answer_format import answer_grammar
from llama_runtime.api.body import read
from llama_runtime.api.infill import infill_prompt
from llama_runtime.api.logprobs import completion_logprobs
from llama_runtime.api.running import Choice, Run, submit
from llama_runtime.api.sampling import nth_choice, sampling
from llama_runtime.api.schema import CompletionRequest
from llama_runtime.api.serving import FINGERPRINT, ServedModel, served_model
from llama_runtime.api.sse import Event, EventStream, answer
from llama_runtime.api.text import Increment, Transcript
from llama_runtime.api.usage import timings, usage
from llama_runtime.generation import Generation


@dataclass(frozen=True)
class Plan:
    """A request, ready to be generated; ``echoes`` has the text before each answer."""

    request: CompletionRequest
    model: ServedModel
    generations: tuple[Generation, ...]
    echoes: tuple[str, ...]

    @property
    def choices_per_prompt(self) -> int:
        return self.request.n or 1


async def completions(request: Request) -> Response:
    body = await read(request, CompletionRequest)
    model = served_model(request)
    model.check_name(body.model)
    plan = await asyncio.to_thread(plan_completion, body, model)
    stops = body.stop or ()
    vocabulary = model.engine.vocabulary
    run = await submit(
        model.engine,
        [(each, Transcript(vocabulary, stops)) for each in plan.generations],
        request.app.state.observer.generated,
        (request.state.who, body.user or ""),
    )
    if body.stream:
        return EventStream(_events(plan, run), run)
    async with run:
        await answer(request, run.complete())
        return JSONResponse(_completion(plan, run))


def plan_completion(request: CompletionRequest, model: ServedModel) -> Plan:
    """Raises APIError for what this model can't do."""
    vocabulary = model.engine.vocabulary
    base = sampling(
        request,
        vocabulary_size=vocabulary.size,
        grammar=answer_grammar(request.response_format, request.grammar),
        logprobs=request.logprobs,
    )
    count = request.n or 1
    model.check_choices(count * len(request.prompt))
    generations, echoes = [], []
    for prompt in request.prompt:
        tokens = _prompt_tokens(prompt, request.suffix, model)
        echo = _echo(prompt, tokens, model) if request.echo else ""
        for index in range(count):
            generations.append(
                Generation(
                    prompt=tokens,
                    max_tokens=request.max_tokens,
                    sampling=nth_choice(base, index),
                    ignore_eos=bool(request.ignore_eos),
                    cache_prompt=request.cache_prompt is not False,
                )
            )
            echoes.append(echo)
    return Plan(request, model, tuple(generations), tuple(echoes))


def _prompt_tokens(
    prompt: str | list[int], suffix: str | None, model: ServedModel
) -> tuple[int, ...]:
    vocabulary = model.engine.vocabulary
    if suffix:
        tokens = infill_prompt(prompt, suffix, vocabulary)
    elif isinstance(prompt, str):
        tokens = vocabulary.tokenize(prompt, add_special=True, parse_special=True)
    else:
        tokens = prompt
    return model.check_tokens(tuple(tokens), "prompt")


def _echo(prompt: str | list[int], tokens: tuple[int, ...], model: ServedModel) -> str:
    if isinstance(prompt, str):
        return prompt
    pieces = (model.engine.vocabulary.piece(token, special=True) for token in tokens)
    return b"".join(pieces).decode("utf-8", "replace")


def _completion(plan: Plan, run: Run) -> dict[str, object]:
    return {
        **_head(plan.model.alias),
        "choices": [
            _choice(
                plan,
                choice,
                Increment(plan.echoes[choice.index] + choice.text, tuple(choice.tokens)),
                choice.finish_reason,
            )
            for choice in run.choices
        ],
        "usage": usage(run.choices, plan.choices_per_prompt),
        "timings": timings(run.choices),
    }


async def _events(plan: Plan, run: Run) -> AsyncGenerator[Event, None]:
    """The chunks of a stream."""
    head = _head(plan.model.alias)
    with_usage = bool(plan.request.stream_options and plan.request.stream_options.include_usage)
    if with_usage:
        head["usage"] = None
    async with aclosing(run.follow()) as increments:
        for choice in run.choices:
            if echo := plan.echoes[choice.index]:
                yield {**head, "choices": [_choice(plan, choice, Increment(echo), None)]}
        running = len(run.choices)
        async for choice, increment in increments:
            ended = choice.finish_reason is not None
            if not increment and not ended:
                continue
            chunk = {**head, "choices": [_choice(plan, choice, increment, choice.finish_reason)]}
            running -= ended
            if not running and not with_usage:
                chunk["timings"] = timings(run.choices)
            yield chunk
        if with_usage:
            yield {
                **head,
                "choices": [],
                "usage": usage(run.choices, plan.choices_per_prompt),
                "timings": timings(run.choices),
            }


def _choice(
    plan: Plan, choice: Choice, increment: Increment, finish_reason: str | None
) -> dict[str, object]:
    logprobs = None
    if plan.request.logprobs is not None:
        logprobs = completion_logprobs(increment.tokens, plan.model.engine.vocabulary)
    return {
        "index": choice.index,
        "text": increment.text,
        "logprobs": logprobs,
        "finish_reason": finish_reason,
    }


def _head(alias: str) -> dict[str, object]:
    return {
        "id": f"cmpl-{secrets.token_hex(16)}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": alias,
        "system_fingerprint": FINGERPRINT,
    }
