"""From a request's fields to the engine's Sampling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from llama_runtime.api.errors import invalid
from llama_runtime.api.schema import GenerationRequest
from llama_runtime.generation import Sampling

# llama.cpp takes 2**32 - 1 for "draw one": no client's seed may become that.
SEEDS = 2**32 - 1


def sampling(
    request: GenerationRequest,
    *,
    vocabulary_size: int,
    grammar: str | None = None,
    logprobs: int | None = None,
) -> Sampling:
    """OpenAI's defaults where the request says nothing; raises APIError for a bad logit_bias."""
    given: dict[str, Any] = {
        "temperature": request.temperature,
        "top_p": request.top_p,
        "top_k": None if request.top_k is None else max(0, request.top_k),
        "min_p": request.min_p,
        "seed": None if request.seed is None else request.seed % SEEDS,
        "repeat_penalty": request.repeat_penalty,
        "penalty_last_n": request.repeat_last_n,
        "frequency_penalty": request.frequency_penalty,
        "presence_penalty": request.presence_penalty,
    }
    return replace(
        Sampling(logprobs=logprobs, grammar=grammar),
        logit_bias=_logit_bias(request.logit_bias or {}, vocabulary_size),
        **{name: value for name, value in given.items() if value is not None},
    )


def nth_choice(base: Sampling, index: int) -> Sampling:
    """The same for choice ``index``: a given seed moves on, so that choices differ."""
    if base.seed is None or index == 0:
        return base
    return replace(base, seed=(base.seed + index) % SEEDS)


def _logit_bias(bias: Mapping[str, float], size: int) -> tuple[tuple[int, float], ...]:
    pairs = []
    for token, value in bias.items():
        if not token.isascii() or not token.isdecimal() or int(token) >= size:
            raise invalid(
                f"logit_bias: '{token}' is no token id: use numbers from 0 to {size - 1}.",
                "logit_bias",
            )
        pairs.append((int(token), value))
    return tuple(pairs)
