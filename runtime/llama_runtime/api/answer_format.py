"""response_format and grammar: what shape the answer must have."""

from __future__ import annotations

from collections.abc import Callable

from llama_runtime.api.errors import invalid
from llama_runtime.api.gbnf import Grammar
from llama_runtime.api.json_schema import add_schema
from llama_runtime.api.schema import GenerationRequest, ResponseFormat


def answer_grammar(response_format: ResponseFormat | None, grammar: str | None) -> str | None:
    """The grammar that the answer must follow, if any; raises APIError."""
    if response_format is None or response_format.type == "text":
        return grammar
    if grammar:
        raise invalid("grammar and response_format exclude each other: remove one", "grammar")
    if response_format.type == "json_schema":
        wanted = response_format.json_schema
        if wanted is None or wanted.json_schema is None:
            raise invalid(
                "response_format json_schema needs its schema: give json_schema.schema",
                "response_format",
            )
        schema, strict = wanted.json_schema, bool(wanted.strict)
    else:
        schema, strict = response_format.object_schema or {"type": "object"}, False

    def build() -> str:
        grammar = Grammar()
        return grammar.render(add_schema(grammar, schema, strict=strict))

    return from_schema(build, "response_format")


def grammar_param(request: GenerationRequest) -> str:
    """Where the answer's grammar came from, for errors."""
    return "grammar" if request.grammar else "response_format"


def from_schema(build: Callable[[], str], param: str) -> str:
    """The grammar that ``build`` makes; what is wrong with its schema becomes a 400."""
    try:
        return build()
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise invalid(f"{param}: the schema can't be used: {error}", param) from None
