"""Log probabilities in OpenAI's two shapes."""

from __future__ import annotations

from collections.abc import Iterable

from llama_runtime.generation import Token, Vocabulary

# JSON has no infinity; OpenAI sends this for what is next to impossible.
LOWEST = -9999.0


def chat_logprobs(tokens: Iterable[Token], vocabulary: Vocabulary) -> dict[str, object]:
    """``logprobs`` of a chat choice."""
    content = [
        _entry(token.id, token.logprob, vocabulary)
        | {"top_logprobs": [_entry(*likely, vocabulary) for likely in token.top_logprobs]}
        for token in tokens
    ]
    return {"content": content, "refusal": None}


def completion_logprobs(
    tokens: Iterable[tuple[Token, int]], vocabulary: Vocabulary
) -> dict[str, object]:
    """``logprobs`` of a text choice; offsets count characters of its text.

    The first token of a prompt has none.
    """
    tokens = list(tokens)
    return {
        "tokens": [_text(token.id, vocabulary) for token, _ in tokens],
        "token_logprobs": [_finite(token.logprob) for token, _ in tokens],
        "top_logprobs": [_top(token, vocabulary) for token, _ in tokens],
        "text_offset": [offset for _, offset in tokens],
    }


def _top(token: Token, vocabulary: Vocabulary) -> dict[str, float | None] | None:
    if token.logprob is None:
        return None
    likely = {_text(id_, vocabulary): _finite(value) for id_, value in token.top_logprobs}
    return {_text(token.id, vocabulary): _finite(token.logprob)} | likely


def _entry(token: int, logprob: float | None, vocabulary: Vocabulary) -> dict[str, object]:
    piece = vocabulary.piece(token, special=True)
    return {
        "token": piece.decode("utf-8", "replace"),
        "logprob": _finite(logprob),
        "bytes": list(piece),
    }


def _text(token: int, vocabulary: Vocabulary) -> str:
    return vocabulary.piece(token, special=True).decode("utf-8", "replace")


def _finite(logprob: float | None) -> float | None:
    return None if logprob is None else max(LOWEST, logprob)
