"""What the endpoints serve: the loaded model, by its public name."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.requests import Request

from llama_runtime.api.errors import APIError, invalid
from llama_runtime.api.template import ChatTemplate, load_template
from llama_runtime.generation import DoesNotFit, Engine, InvalidGeneration
from llama_runtime.version import VERSION

FINGERPRINT = f"llama-runtime-{VERSION}"


@dataclass(frozen=True)
class ServedModel:
    """``template`` None: the model can't chat, and ``no_chat`` says why."""

    alias: str
    engine: Engine
    template: ChatTemplate | None
    no_chat: str
    created: int = field(default_factory=lambda: int(time.time()))

    @classmethod
    def of(cls, alias: str, engine: Engine) -> ServedModel:
        template, no_chat = load_template(
            engine.chat_template, bos_token=engine.bos_token, eos_token=engine.eos_token
        )
        return cls(alias, engine, template, no_chat)

    def check_name(self, name: str | None) -> None:
        """A request may leave the model out; it must not name another."""
        if name is not None and name != self.alias:
            raise APIError(
                404,
                f"The model '{name}' is not served here: use '{self.alias}'.",
                code="model_not_found",
                param="model",
            )

    def check_tokens(self, tokens: tuple[int, ...], param: str) -> tuple[int, ...]:
        size = self.engine.vocabulary.size
        if not tokens:
            raise invalid(f"{param}: it has no tokens: send some text", param)
        if min(tokens) < 0 or max(tokens) >= size:
            raise invalid(f"{param}: token ids go from 0 to {size - 1}", param)
        return tokens

    def tokenize(
        self, text: str, param: str, *, add_special: bool, parse_special: bool = True
    ) -> tuple[int, ...]:
        """The tokens of a prompt; raises APIError for none, or for more than can ever fit.

        What is far too long is not even read: that alone would take seconds.
        """
        vocabulary, most = self.engine.vocabulary, self.engine.context_per_sequence
        least = len(text) // max(vocabulary.longest_piece, 1)
        if least > most:
            raise DoesNotFit(least, 1, most)
        tokens = vocabulary.tokenize(text, add_special=add_special, parse_special=parse_special)
        return self.check_tokens(tuple(tokens), param)

    def check_grammar(self, grammar: str, param: str) -> None:
        """Raises APIError for one that can't be used; compiles it, which takes its time."""
        try:
            self.engine.check_grammar(grammar)
        except InvalidGeneration as error:
            raise invalid(f"{param}: {error}", param) from None

    def check_choices(self, count: int) -> None:
        """More generations than can ever run and wait together would be refused for ever."""
        status = self.engine.status()
        most = _number(status, "kv", "maxSequences") + _number(status, "requests", "queueLimit")
        if count > most:
            raise invalid(
                f"The request asks for {count} answers, but at most {most} can run and wait: "
                "ask for fewer (n, prompts).",
                "n",
            )


# Raises NotServing while there is no model to serve.
ModelSource = Callable[[], ServedModel]


def served_model(request: Request) -> ServedModel:
    source: ModelSource = request.app.state.model_source
    return source()


def _number(status: dict[str, object], part: str, key: str) -> int:
    values = status[part]
    value = values.get(key) if isinstance(values, dict) else None
    return value if isinstance(value, int) else 0
