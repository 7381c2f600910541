"""``suffix``: prompts of models that were trained to fill in the middle."""

from __future__ import annotations

from llama_runtime.api.errors import unsupported
from llama_runtime.generation import Vocabulary

# Prefix, suffix and middle, as the makers of models spell them.
MARKERS = (
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
    ("<fim-prefix>", "<fim-suffix>", "<fim-middle>"),
    ("<PRE>", "<SUF>", "<MID>"),
    ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),  # noqa: RUF001
    ("[PREFIX]", "[SUFFIX]", "[MIDDLE]"),
)


def infill_prompt(prompt: str | list[int], suffix: str, vocabulary: Vocabulary) -> list[int]:
    """Tokens in the order prefix, suffix, middle; raises APIError if the model has no such ones."""
    markers = _markers(vocabulary)
    if markers is None:
        raise unsupported(
            "suffix: this model has no tokens to fill in the middle: remove suffix, "
            "or serve a model that was trained for it",
            "suffix",
        )
    before, after, middle = markers
    if isinstance(prompt, str):
        prompt = vocabulary.tokenize(prompt, add_special=False, parse_special=False)
    text = vocabulary.tokenize(suffix, add_special=False, parse_special=False)
    start = vocabulary.tokenize("", add_special=True, parse_special=False)
    return [*start, before, *prompt, after, *text, middle]


def _markers(vocabulary: Vocabulary) -> tuple[int, int, int] | None:
    for spelling in MARKERS:
        tokens = [
            vocabulary.tokenize(marker, add_special=False, parse_special=True)
            for marker in spelling
        ]
        if all(len(each) == 1 for each in tokens):
            return tokens[0][0], tokens[1][0], tokens[2][0]
    return None
