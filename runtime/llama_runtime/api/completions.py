"""POST /v1/completions."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from llama_runtime.api.answer_format import answer_grammar, grammar_param
from llama_runtime.api.answering import Plan, generations, respond, wants_usage
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
    """A completion, ready to be generated; ``echoes`` has the text before each answer."""

    request: CompletionRequest
    echoes: tuple[str, ...]

    def answer(self, run: Run) -> dict[str, object]:
        return _completion(self, run)

    def events(self, run: Run) -> AsyncGenerator[Event, None]:
        return _events(self, run)


async def completions(request: Request) -> Response:
    return await respond(request, CompletionRequest, plan_completion)


def plan_completion(request: CompletionRequest, model: ServedModel) -> CompletionPlan:
    """Raises APIError for what this model can't do."""
    prompts = [_prompt_tokens(prompt, request.suffix, model) for prompt in request.prompt]
    wanted = generations(
        request,
        model,
        prompts,
        grammar=answer_grammar(request.response_format, request.grammar),
        grammar_param=grammar_param(request),
        logprobs=request.logprobs,
        max_tokens=request.max_tokens,
    )
    count = len(wanted) // len(prompts)
    echoes = ("",) * len(wanted)
    if request.echo:
        texts = map(_echo, request.prompt, prompts, [model] * len(prompts))
        echoes = tuple(text for text in texts for _ in range(count))
    return CompletionPlan(model, wanted, count, request, echoes)


def _prompt_tokens(
    prompt: str | list[int], suffix: str | None, model: ServedModel
) -> tuple[int, ...]:
    vocabulary = model.engine.vocabulary
    if suffix:
        return model.check_tokens(tuple(infill_prompt(prompt, suffix, vocabulary)), "prompt")
    if isinstance(prompt, str):
        return model.tokenize(prompt, "prompt", add_special=True)
    return model.check_tokens(tuple(prompt), "prompt")


def _echo(prompt: str | list[int], tokens: tuple[int, ...], model: ServedModel) -> str:
    if isinstance(prompt, str):
        return prompt
    pieces = (model.engine.vocabulary.piece(token, special=True) for token in tokens)
    return b"".join(pieces).decode("utf-8", "replace")


def _completion(plan: CompletionPlan, run: Run) -> dict[str, object]:
    return {
        **_head(plan.model.alias),
        "choices": [
            _choice(
                plan,
                choice,
                Increment(
                    plan.echoes[choice.index] + choice.text,
                    tuple(choice.tokens),
                    choice.finish_reason,
                ),
            )
            for choice in run.choices
        ],
        "usage": usage(run.choices, plan.choices_per_prompt),
        "timings": timings(run.choices),
    }


async def _events(plan: CompletionPlan, run: Run) -> AsyncGenerator[Event, None]:
    """The chunks of a stream."""
    head = _head(plan.model.alias)
    with_usage = wants_usage(plan.request)
    if with_usage:
        head["usage"] = None
    async with aclosing(run.follow()) as increments:
        for choice in run.choices:
            if echo := plan.echoes[choice.index]:
                yield {**head, "choices": [_choice(plan, choice, Increment(echo))]}
        running = len(run.choices)
        async for choice, increment in increments:
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
