"""Token counts as OpenAI gives them, and llama.cpp's ``timings``."""

from __future__ import annotations

from collections.abc import Sequence

from llama_runtime.api.running import Choice


def usage(choices: Sequence[Choice], choices_per_prompt: int) -> dict[str, object]:
    """A prompt counts once, however many choices share it."""
    firsts = choices[::choices_per_prompt]
    prompt = sum(choice.timings.prompt_tokens for choice in firsts)
    completion = sum(choice.transcript.tokens for choice in choices)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {
            "cached_tokens": sum(choice.timings.cached_tokens for choice in firsts)
        },
    }


def timings(choices: Sequence[Choice]) -> dict[str, object]:
    """Sums over the choices, by the names of llama.cpp's server; times in milliseconds."""
    each = [choice.timings for choice in choices]
    cached = sum(one.cached_tokens for one in each)
    prompt = sum(one.prompt_tokens for one in each) - cached
    predicted = sum(choice.transcript.tokens for choice in choices)
    prompt_seconds = sum(one.prompt_seconds for one in each)
    predicted_seconds = sum(one.predicted_seconds for one in each)
    return {
        "cache_n": cached,
        "prompt_n": prompt,
        "prompt_ms": 1000 * prompt_seconds,
        "prompt_per_second": _rate(prompt, prompt_seconds),
        "predicted_n": predicted,
        "predicted_ms": 1000 * predicted_seconds,
        "predicted_per_second": _rate(predicted, predicted_seconds),
    }


def _rate(count: int, seconds: float) -> float | None:
    return count / seconds if seconds > 0 else None
