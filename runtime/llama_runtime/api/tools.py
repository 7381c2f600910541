"""Tool calls as models write them, in and out of the text of an answer.

One format is known: Hermes, which Qwen and many others share. A call is
``<tool_call>{"name": …, "arguments": {…}}</tool_call>``.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llama_runtime.api.gbnf import Grammar, alternatives, json_literal, literal
from llama_runtime.api.json_schema import add_schema
from llama_runtime.api.schema import Message, Tool
from llama_runtime.api.template import ChatTemplate
from llama_runtime.api.text import held_from
from llama_runtime.generation import Vocabulary

OPENING = "<tool_call>"
CLOSING = "</tool_call>"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call; arguments are JSON text, as OpenAI sends them."""

    id: str
    name: str
    arguments: str


def writes_hermes_calls(template: ChatTemplate) -> bool:
    """Whether the model was taught this format; XML calls inside the same tags are another."""
    return OPENING in template.source and "<function=" not in template.source


def marker_tokens(vocabulary: Vocabulary) -> frozenset[int]:
    """Special tokens that are the markers: their text belongs to the answer."""
    markers = set()
    for marker in (OPENING, CLOSING):
        tokens = vocabulary.tokenize(marker, add_special=False, parse_special=True)
        if len(tokens) == 1:
            markers.add(tokens[0])
    return frozenset(markers)


def for_template(message: Message) -> dict[str, Any]:
    """A message as templates take it: a call's arguments are an object, not JSON text."""
    plain = message.model_dump(exclude_none=True)
    plain.setdefault("content", "")
    for call in plain.get("tool_calls", []):
        arguments = call["function"]["arguments"]
        try:
            call["function"]["arguments"] = json.loads(arguments)
        except ValueError:
            continue  # the model may have written bad JSON itself: show it what it wrote
    return plain


def forced_calls(tools: Sequence[Tool], *, several: bool) -> str:
    """The grammar of an answer that is one call of ``tools`` (or several), and nothing else."""
    grammar = Grammar()
    bodies = [_call(grammar, tool) for tool in tools]
    opening, closing = literal(OPENING + "\n"), literal("\n" + CLOSING)
    call = grammar.add("call", f"{opening} {alternatives(bodies)} {closing}")
    return grammar.render(f'{call} ("\\n" {call})*' if several else call)


def _call(grammar: Grammar, tool: Tool) -> str:
    name = tool.function.name
    parameters: Mapping[str, Any] = tool.function.parameters or {"properties": {}}
    arguments = add_schema(
        grammar, parameters, strict=bool(tool.function.strict), name=f"tool-{name}"
    )
    start = f'"{{\\"name\\": " {json_literal(name)} ", \\"arguments\\": "'
    return grammar.add(f"call-{name}", f'{start} {arguments} "}}"')


class ToolCallReader:
    """Separates calls from text while the answer comes in pieces.

    White space around calls is not text: it is held back until text follows it.
    """

    def __init__(self) -> None:
        self._buffer = ""
        self._space = ""
        self._inside = False
        self.calls = 0

    def feed(self, text: str) -> Iterator[str | ToolCall]:
        """Text and calls, in order, as far as they are complete."""
        self._buffer += text
        while True:
            marker = CLOSING if self._inside else OPENING
            before, found, after = self._buffer.partition(marker)
            if not found:
                break
            self._buffer = after
            yield from self._call(before, CLOSING) if self._inside else self._text(before)
            self._inside = not self._inside
        if not self._inside:
            keep = held_from(self._buffer, [OPENING])
            text, self._buffer = self._buffer[:keep], self._buffer[keep:]
            yield from self._text(text)

    def finish(self) -> Iterator[str | ToolCall]:
        """What was held back; a call that never got complete comes as text."""
        if self._inside:
            yield from self._call(self._buffer, "")
        else:
            yield from self._text(self._buffer)
        if self._space and not self.calls:
            yield self._space

    def _text(self, text: str) -> Iterator[str]:
        text = self._space + text
        visible = text.rstrip()
        self._space = text[len(visible) :]
        if visible:
            yield visible

    def _call(self, text: str, closing: str) -> Iterator[str | ToolCall]:
        call = _parse(text)
        if call is None:
            yield from self._text(OPENING + text + closing)
            return
        self._space = ""
        self.calls += 1
        yield call


def _parse(text: str) -> ToolCall | None:
    try:
        call = json.loads(text)
    except ValueError:
        return None
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        return None
    arguments = call.get("arguments", {})
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return ToolCall(f"call_{secrets.token_hex(12)}", call["name"], arguments)
