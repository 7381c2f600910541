"""The log probabilities of a prompt's own tokens, as they are computed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from llama_runtime.engine.batch import Int32Array, Row
from llama_runtime.engine.context import Logits
from llama_runtime.engine.sampling import LogitsUnusable, with_logprobs
from llama_runtime.generation import Token

if TYPE_CHECKING:
    from llama_runtime.engine.sequence import RunningSequence


class PromptScores:
    """The tokens of a prompt that are scored so far, from its beginning.

    The logits of a position score the token behind it: the first token has no score, and the
    last position's logits score nothing. What is scored stays when the cache is lost.
    """

    def __init__(self, prompt: Int32Array, count: int) -> None:
        """``count``: how many of the likeliest tokens come with each."""
        self._prompt = prompt
        self._count = count
        self._tokens = [Token(int(prompt[0]))]

    def outputs(self, begin: int, end: int) -> int:
        """At how many of these positions logits are still needed to score."""
        return max(min(end, len(self._prompt) - 1) - max(begin, len(self._tokens) - 1), 0)

    def add(self, logits: Logits) -> None:
        """Take in those of the next positions, a line each; none is kept."""
        for row in logits:
            token = int(self._prompt[len(self._tokens)])
            self._tokens.append(with_logprobs(token, row, self._count))

    def result(self) -> tuple[Token, ...]:
        """Every token, once the prompt is computed; raises LogitsUnusable."""
        if any(token.logprob is not None and math.isnan(token.logprob) for token in self._tokens):
            raise LogitsUnusable
        return tuple(self._tokens)


def score_prompts(computed: Iterable[tuple[RunningSequence, Row]], logits: Logits) -> list[Logits]:
    """Take in what scores prompts; the lines that are left each choose a token."""
    left = []
    end = 0
    for sequence, row in computed:
        begin, end = end, end + row.outputs
        chooses = sequence.remaining == 0
        if sequence.scores is not None:
            sequence.scores.add(logits[begin : end - chooses])
        if chooses:
            left.append(logits[end - 1])
    return left
