"""What is refused before it can reach llama.cpp."""

from __future__ import annotations

import math

from llama_runtime.generation import DoesNotFit, Generation, InvalidGeneration, Sampling


def tokens_to_generate(
    generation: Generation, vocabulary_size: int, context_per_sequence: int
) -> int:
    """The most tokens that the generation may produce; raises InvalidGeneration or DoesNotFit."""
    check_tokens(generation.prompt, vocabulary_size)
    _check_sampling(generation.sampling, vocabulary_size)
    if generation.score_prompt and generation.sampling.logprobs is None:
        raise InvalidGeneration("score_prompt needs logprobs: say how many, or 0.")
    room = context_per_sequence - len(generation.prompt)
    wanted = generation.max_tokens
    if wanted is not None and wanted < 0:
        raise InvalidGeneration(f"max_tokens is {wanted}, but it must not be negative.")
    if room < (1 if wanted is None else wanted):
        raise DoesNotFit(
            len(generation.prompt), 1 if wanted is None else wanted, context_per_sequence
        )
    return room if wanted is None else wanted


def check_tokens(tokens: tuple[int, ...], vocabulary_size: int) -> None:
    """Raises InvalidGeneration for no tokens at all, or ids outside the vocabulary."""
    if not tokens:
        raise InvalidGeneration("The prompt is empty: send at least one token.")
    for token in (min(tokens), max(tokens)):
        if not 0 <= token < vocabulary_size:
            raise InvalidGeneration(
                f"Token {token} does not exist: ids go from 0 to {vocabulary_size - 1}."
            )


def _check_sampling(sampling: Sampling, vocabulary_size: int) -> None:
    def require(fine: bool, name: str, value: object, rule: str) -> None:
        if not fine:
            raise InvalidGeneration(f"{name} is {value}, but it must be {rule}.")

    def number(name: str, low: float, high: float, rule: str) -> None:
        value = getattr(sampling, name)
        require(math.isfinite(value) and low <= value <= high, name, value, rule)

    number("temperature", 0, math.inf, "a number from 0 up")
    number("top_p", 0, 1, "from 0 to 1")
    number("min_p", 0, 1, "from 0 to 1")
    number("top_k", 0, 2**31 - 1, "a whole number from 0 up")
    number("frequency_penalty", -math.inf, math.inf, "a number")
    number("presence_penalty", -math.inf, math.inf, "a number")
    number("penalty_last_n", -1, 2**31 - 1, "-1 or a whole number from 0 up")
    require(
        math.isfinite(sampling.repeat_penalty) and sampling.repeat_penalty > 0,
        "repeat_penalty",
        sampling.repeat_penalty,
        "a number above 0",
    )
    if sampling.logprobs is not None:
        number("logprobs", 0, vocabulary_size, f"from 0 to {vocabulary_size}")
    for token, bias in sampling.logit_bias:
        require(
            0 <= token < vocabulary_size,
            "A token of logit_bias",
            token,
            f"from 0 to {vocabulary_size - 1}",
        )
        require(
            not math.isnan(bias) and bias != math.inf, "A value of logit_bias", bias, "a number"
        )
