"""POST /v1/chat/completions."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from llama_runtime.api import tools
from llama_runtime.api.answer_format import answer_grammar, from_schema, grammar_param
from llama_runtime.api.answering import Plan, generations, respond, wants_usage
from llama_runtime.api.errors import invalid, unsupported
from llama_runtime.api.logprobs import chat_logprobs
from llama_runtime.api.running import Choice, Run
from llama_runtime.api.schema import ChatRequest, NamedToolChoice, Tool
from llama_runtime.api.serving import FINGERPRINT, ServedModel
from llama_runtime.api.sse import Event
from llama_runtime.api.template import ChatTemplate
from llama_runtime.api.text import Increment
from llama_runtime.api.tools import ToolCall, ToolCallReader
from llama_runtime.api.usage import timings, usage
from llama_runtime.generation import Token


@dataclass(frozen=True)
class ChatPlan(Plan):
    """A chat, ready to be generated."""

    request: ChatRequest
    calls_tools: bool

    @property
    def shown(self) -> frozenset[int]:
        if not self.calls_tools:
            return frozenset()
        return tools.marker_tokens(self.model.engine.vocabulary)

    def answer(self, run: Run) -> dict[str, object]:
        return _completion(self, run.choices)

    def events(self, run: Run) -> AsyncGenerator[Event, None]:
        return _events(self, run)


async def chat_completions(request: Request) -> Response:
    return await respond(request, ChatRequest, plan_chat)


def plan_chat(request: ChatRequest, model: ServedModel) -> ChatPlan:
    """Raises APIError for what this model can't do."""
    if model.template is None:
        raise invalid(model.no_chat, "messages", "no_chat_template")
    offered = _offered_tools(request, model.template)
    grammar = answer_grammar(request.response_format, request.grammar)
    if offered:
        grammar = _tool_grammar(request, offered, grammar)
    text = model.template.render(
        [tools.for_template(message) for message in request.messages],
        tools=[tool.model_dump(exclude_none=True) for tool in offered],
        variables=_template_variables(request, model.template),
    )
    starts_itself = bool(model.engine.bos_token) and text.startswith(model.engine.bos_token)
    prompt = model.tokenize(text, "messages", add_special=not starts_itself)
    wanted = generations(
        request,
        model,
        [prompt],
        grammar=grammar,
        grammar_param="tools" if offered else grammar_param(request),
        logprobs=(request.top_logprobs or 0) if request.logprobs else None,
        max_tokens=request.max_completion_tokens or request.max_tokens,
    )
    return ChatPlan(model, wanted, len(wanted), request, calls_tools=bool(offered))


def _offered_tools(request: ChatRequest, template: ChatTemplate) -> list[Tool]:
    """The tools that the model is told about; none with tool_choice none."""
    if not request.tools or request.tool_choice == "none":
        return []
    if not template.knows_tools:
        raise unsupported(
            "tools: this model's chat template knows no tools: remove them, "
            "or serve a model that was trained to call tools",
            "tools",
        )
    if not tools.writes_hermes_calls(template):
        raise unsupported(
            "tools: this model writes tool calls in a format that is not understood here: "
            "remove them, or serve one that writes <tool_call> with JSON (Qwen, Hermes)",
            "tools",
        )
    return request.tools


def _tool_grammar(request: ChatRequest, offered: list[Tool], grammar: str | None) -> str | None:
    """The grammar that forces a call, where tool_choice asks for one."""
    if grammar is not None:
        raise invalid(
            "tools exclude response_format and grammar: set tool_choice to none, or remove one",
            "tools",
        )
    match request.tool_choice:
        case None | "auto":
            return None
        case NamedToolChoice(function=named):
            chosen = [tool for tool in offered if tool.function.name == named.name]
            if not chosen:
                raise invalid(
                    f"tool_choice names '{named.name}', which is not in tools", "tool_choice"
                )
            several = False
        case _:
            chosen, several = offered, request.parallel_tool_calls is not False
    return from_schema(lambda: tools.forced_calls(chosen, several=several), "tools")


def _template_variables(request: ChatRequest, template: ChatTemplate) -> dict[str, Any]:
    variables = dict(request.chat_template_kwargs or {})
    if request.reasoning_effort is not None:
        if "reasoning_effort" not in template.variables:
            raise unsupported(
                "reasoning_effort: this model's chat template doesn't know it: remove it",
                "reasoning_effort",
            )
        variables["reasoning_effort"] = request.reasoning_effort
    return variables


def _completion(plan: ChatPlan, choices: Sequence[Choice]) -> dict[str, object]:
    return {
        **_head("chat.completion", plan.model.alias),
        "choices": [_message_choice(plan, choice) for choice in choices],
        "usage": usage(choices, len(choices)),
        "timings": timings(choices),
    }


def _message_choice(plan: ChatPlan, choice: Choice) -> dict[str, object]:
    message: dict[str, object] = {"role": "assistant", "content": choice.text, "refusal": None}
    reason = choice.finish_reason
    if plan.calls_tools:
        reader = ToolCallReader()
        parts = [*reader.feed(choice.text), *reader.finish()]
        text = "".join(part for part in parts if isinstance(part, str))
        calls = [part for part in parts if isinstance(part, ToolCall)]
        if calls:
            message["content"] = text or None
            message["tool_calls"] = [_call(call) for call in calls]
            reason = "tool_calls" if reason == "stop" else reason
    tokens = [token for token, _ in choice.tokens]
    return {
        "index": choice.index,
        "message": message,
        "logprobs": _logprobs(plan, tokens),
        "finish_reason": reason,
    }


async def _events(plan: ChatPlan, run: Run) -> AsyncGenerator[Event, None]:
    """The chunks of a stream."""
    head = _head("chat.completion.chunk", plan.model.alias)
    with_usage = wants_usage(plan.request)
    if with_usage:
        head["usage"] = None

    def chunk(choice: Choice, delta: dict[str, object], **rest: object) -> dict[str, object]:
        each = {"index": choice.index, "delta": delta, "logprobs": None, "finish_reason": None}
        return {**head, "choices": [each | rest]}

    async with aclosing(run.follow()) as increments:
        for choice in run.choices:
            yield chunk(choice, {"role": "assistant", "content": "", "refusal": None})
        writers = {choice.index: _DeltaWriter(plan.calls_tools) for choice in run.choices}
        running = len(run.choices)
        async for choice, increment in increments:
            writer = writers[choice.index]
            tokens = [token for token, _ in increment.tokens]
            for delta in writer.deltas(increment):
                yield chunk(choice, delta, logprobs=_logprobs(plan, tokens))
                tokens = []
            if tokens and plan.request.logprobs:
                yield chunk(choice, {"content": ""}, logprobs=_logprobs(plan, tokens))
            if increment.finish_reason is not None:
                running -= 1
                end = chunk(choice, {}, finish_reason=writer.finish_reason(increment.finish_reason))
                if not running and not with_usage:
                    end["timings"] = timings(run.choices)
                yield end
        if with_usage:
            yield {
                **head,
                "choices": [],
                "usage": usage(run.choices, len(run.choices)),
                "timings": timings(run.choices),
            }


class _DeltaWriter:
    """The deltas of one choice: text as it comes, each tool call whole."""

    def __init__(self, calls_tools: bool) -> None:
        self._reader = ToolCallReader() if calls_tools else None

    def deltas(self, increment: Increment) -> Iterator[dict[str, object]]:
        if self._reader is None:
            if increment.text:
                yield {"content": increment.text}
            return
        before = self._reader.calls
        parts = [*self._reader.feed(increment.text)]
        if increment.finish_reason is not None:
            parts += self._reader.finish()
        for part in parts:
            if isinstance(part, str):
                yield {"content": part}
            else:
                yield {"tool_calls": [{"index": before, **_call(part)}]}
                before += 1

    def finish_reason(self, reason: str) -> str:
        called = self._reader is not None and self._reader.calls
        return "tool_calls" if called and reason == "stop" else reason


def _head(kind: str, alias: str) -> dict[str, object]:
    return {
        "id": f"chatcmpl-{secrets.token_hex(16)}",
        "object": kind,
        "created": int(time.time()),
        "model": alias,
        "system_fingerprint": FINGERPRINT,
    }


def _call(call: ToolCall) -> dict[str, object]:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }


def _logprobs(plan: ChatPlan, tokens: Sequence[Token]) -> dict[str, object] | None:
    if not plan.request.logprobs:
        return None
    return chat_logprobs(tokens, plan.model.engine.vocabulary)
