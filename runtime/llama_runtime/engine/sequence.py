"""A running sequence: its tokens, and how many of them are in the KV cache."""

from __future__ import annotations

import numpy as np

from llama_runtime.engine.batch import Int32Array
from llama_runtime.engine.prompt_scores import PromptScores
from llama_runtime.engine.sampling import Sampler
from llama_runtime.engine.stream import Request
from llama_runtime.generation import Client


class RunningSequence:
    """One admitted request in its sequence of the context.

    While ``source`` is set, nothing is computed: the source still computes a prefix of
    ``shared`` tokens that this sequence will take over. ``scores`` is there until the prompt
    is computed, if its tokens are to be scored.
    """

    def __init__(self, id: int, request: Request, sampler: Sampler) -> None:  # noqa: A002
        self.id = id
        self.request = request
        self.sampler = sampler
        self._tokens = np.zeros(max(request.promised, 1), np.int32)
        self._tokens[: len(request.prompt)] = request.prompt
        self.length = len(request.prompt)
        self.computed = 0
        self.source: RunningSequence | None = None
        self.shared = 0
        self.is_suspect = False
        self.scores: PromptScores | None = None
        if request.generation.score_prompt:
            self.scores = PromptScores(request.prompt, request.generation.sampling.logprobs or 0)

    @property
    def tokens(self) -> Int32Array:
        """Prompt and generated tokens."""
        return self._tokens[: self.length]

    @property
    def client(self) -> Client:
        return self.request.client

    @property
    def remaining(self) -> int:
        """Known tokens that are not in the KV cache yet."""
        return self.length - self.computed

    @property
    def is_private(self) -> bool:
        """Neither taken from the prefix cache nor left in it."""
        return not self.request.generation.cache_prompt

    def append(self, token: int) -> None:
        self._tokens[self.length] = token
        self.length += 1
