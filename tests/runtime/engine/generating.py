"""Asking an engine in tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llama_runtime.engine import LlamaEngine
from llama_runtime.generation import Finished, Generation, Sampling, Token

GREEDY = Sampling(temperature=0)


@dataclass(frozen=True)
class Answer:
    tokens: list[int]
    finished: Finished
    items: list[Token]
    prompt_scores: tuple[Token, ...]


def tokens_of(engine: LlamaEngine, text: str) -> tuple[int, ...]:
    return tuple(engine.vocabulary.tokenize(text, add_special=True, parse_special=True))


def question(engine: LlamaEngine, text: str) -> tuple[int, ...]:
    return tokens_of(engine, f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n")


def text_of(engine: LlamaEngine, tokens: Sequence[int]) -> str:
    return b"".join(engine.vocabulary.piece(token) for token in tokens).decode()


async def answer(
    engine: LlamaEngine,
    prompt: Sequence[int],
    max_tokens: int | None = 16,
    sampling: Sampling = GREEDY,
    **generation: Any,
) -> Answer:
    """Submit, and read to the end."""
    stream = engine.submit(Generation(tuple(prompt), max_tokens, sampling, **generation))
    items: list[Token] = []
    async for item in stream:
        if isinstance(item, Finished):
            ids = [token.id for token in items]
            return Answer(ids, item, items, stream.prompt_scores)
        items.append(item)
    raise AssertionError("The stream ended without Finished.")
