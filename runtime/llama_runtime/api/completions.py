"""POST /v1/completions."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from llama_runtime.api.answer_format import answer_grammar, grammar_param
from llama_runtime.api.answering import Plan, generations, respond, wants_usage
from llama_runtime.api.echo import Echo
from llama_runtime.api.errors import invalid
from llama_runtime.api.infill import infill_prompt
from llama_runtime.api.logprobs import completion_logprobs
from llama_runtime.api.running import Choice, Run
from llama_runtime.api.schema import CompletionRequest
from llama_runtime.api.serving import FINGERPRINT, ServedModel
from llama_runtime.api.sse import Event
from llama_runtime.api.text import Increment
from llama_runtime.api.usage import timings, usage


@dataclass(frozen=True)
class CompletionPlan(Plan):
    """A completion, ready to be generated; ``echoes`` has what is before each prompt's answers."""

    request: CompletionRequest
    echoes: tuple[Echo, ...]

    def echo(self, choice: Choice) -> Echo:
        return self.echoes[choice.index // self.choices_per_prompt]

    def answer(self, run: Run) -> dict[str, object]:
        return _completion(self, run)

    def events(self, run: Run) -> AsyncGenerator[Event, None]:
        return _events(self, run)


async def completions(request: Request) -> Response:
    return await respond(request, CompletionRequest, plan_completion)


def plan_completion(request: CompletionRequest, model: ServedModel) -> CompletionPlan:
    """Raises APIError for what this model can't do."""
    if request.max_tokens == 0 and not request.echo:
        raise invalid(
            "max_tokens: 0 leaves nothing to answer: set echo, or ask for 1", "max_tokens"
        )
    prompts = [_prompt_tokens(prompt, request.suffix, model) for prompt in request.prompt]
    wanted = generations(
        request,
        model,
        prompts,
        grammar=answer_grammar(request.response_format, request.grammar),
        grammar_param=grammar_param(request),
        logprobs=request.logprobs,
        max_tokens=request.max_tokens,
        score_prompt=bool(request.echo) and request.logprobs is not None,
    )
    echoes = tuple(
        Echo.of(prompt, tokens, model.engine.vocabulary) if request.echo else Echo()
        for prompt, tokens in zip(request.prompt, prompts, strict=True)
    )
    return CompletionPlan(model, wanted, len(wanted) // len(prompts), request, echoes)


def _prompt_tokens(
    prompt: str | list[int], suffix: str | None, model: ServedModel
) -> tuple[int, ...]:
    vocabulary = model.engine.vocabulary
    if suffix:
        return model.check_tokens(tuple(infill_prompt(prompt, suffix, vocabulary)), "prompt")
    if isinstance(prompt, str):
        return model.tokenize(prompt, "prompt", add_special=True)
    return model.check_tokens(tuple(prompt), "prompt")


def _completion(plan: CompletionPlan, run: Run) -> dict[str, object]:
    return {
        **_head(plan.model.alias),
        "choices": [_choice(plan, choice, _whole(plan, choice)) for choice in run.choices],
        "usage": usage(run.choices, plan.choices_per_prompt),
        "timings": timings(run.choices),
    }


def _whole(plan: CompletionPlan, choice: Choice) -> Increment:
    """The prompt, where it is echoed, and the answer."""
    echo = plan.echo(choice).scored(choice.prompt_scores)
    rest = Increment(choice.text, tuple(choice.tokens)).behind(echo.text)
    return Increment(echo.text + rest.text, echo.tokens + rest.tokens, choice.finish_reason)


async def _events(plan: CompletionPlan, run: Run) -> AsyncGenerator[Event, None]:
    """The chunks of a stream."""
    head = _head(plan.model.alias)
    with_usage = wants_usage(plan.request)
    if with_usage:
        head["usage"] = None
    async with aclosing(run.follow()) as increments:
        running = len(run.choices)
        echoed: set[int] = set()
        async for choice, increment in increments:
            if plan.request.echo:
                echo = plan.echo(choice)
                if choice.index not in echoed:
                    echoed.add(choice.index)
                    scored = echo.scored(choice.prompt_scores)
                    # A long prompt's logprobs take their time: not on the event loop.
                    first = await asyncio.to_thread(_choice, plan, choice, scored)
                    yield {**head, "choices": [first]}
                increment = increment.behind(echo.text)
            chunk = {**head, "choices": [_choice(plan, choice, increment)]}
            running -= increment.finish_reason is not None
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


def _choice(plan: CompletionPlan, choice: Choice, increment: Increment) -> dict[str, object]:
    logprobs = None
    if plan.request.logprobs is not None:
        logprobs = completion_logprobs(increment.tokens, plan.model.engine.vocabulary)
    return {
        "index": choice.index,
        "text": increment.text,
        "logprobs": logprobs,
        "finish_reason": increment.finish_reason,
    }


def _head(alias: str) -> dict[str, object]:
    return {
        "id": f"cmpl-{secrets.token_hex(16)}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": alias,
        "system_fingerprint": FINGERPRINT,
    }
