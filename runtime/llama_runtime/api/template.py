"""The chat template inside the GGUF, rendered as Hugging Face's transformers do."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from jinja2 import TemplateError, TemplateSyntaxError, meta, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from llama_runtime.api.errors import invalid


class ChatTemplate:
    """A parsed template; raises TemplateSyntaxError (jinja2) when it can't be."""

    def __init__(self, source: str, *, bos_token: str = "", eos_token: str = "") -> None:
        environment = _environment()
        self.source = source
        self.variables = frozenset(meta.find_undeclared_variables(environment.parse(source)))
        self._template = environment.from_string(source)
        self._special = {"bos_token": bos_token, "eos_token": eos_token}

    @property
    def knows_tools(self) -> bool:
        return "tools" in self.variables

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        """The prompt up to where the assistant speaks; raises APIError if the template refuses."""
        context = {
            **(variables or {}),
            **self._special,
            "messages": [self._known_role(message) for message in messages],
            "tools": list(tools) or None,
            "documents": None,
            "add_generation_prompt": True,
        }
        try:
            return self._template.render(context)
        except Exception as error:  # whatever a template does with what it didn't expect
            raise invalid(
                f"The model's chat template refused the messages: {error}.", "messages"
            ) from None

    def _known_role(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """Templates older than the developer role call it system."""
        if message["role"] == "developer" and "developer" not in self.source:
            return {**message, "role": "system"}
        return message


def load_template(
    source: str | None, *, bos_token: str, eos_token: str
) -> tuple[ChatTemplate | None, str]:
    """The template, or None and the sentence that a client of chat gets."""
    if not source:
        return None, (
            "This model has no chat template, so it can't chat: use /v1/completions, "
            "or a GGUF that has tokenizer.chat_template."
        )
    try:
        return ChatTemplate(source, bos_token=bos_token, eos_token=eos_token), ""
    except TemplateSyntaxError as error:
        return None, (
            f"The model's chat template can't be parsed (line {error.lineno}: {error.message}): "
            "use /v1/completions, or a GGUF with a valid tokenizer.chat_template."
        )


class _GenerationTag(Extension):
    """transformers' ``{% generation %}`` marks what the model said; it renders its body."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        parser.stream.skip(1)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _GenerationTag]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


def _tojson(value: object, **options: Any) -> str:
    """JSON for a prompt: unlike jinja2's own filter it escapes nothing for HTML."""
    return json.dumps(value, **{"ensure_ascii": False, **options})


def _raise_exception(message: str) -> None:
    raise TemplateError(message)


def _strftime_now(pattern: str) -> str:
    return datetime.now().astimezone().strftime(pattern)
