"""Choosing the next token from a row of logits.

The order is llama.cpp's: logit bias, penalties, grammar, top-k, top-p, min-p,
temperature, draw. Bias and penalties touch few tokens and are done in numpy on
llama.cpp's own buffer: its penalty sampler looks every token of the vocabulary
up in a hash map (measured: 350 µs a token for 49,152).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import cast

import llama_cpp
import numpy as np
import numpy.typing as npt

from llama_runtime.engine.batch import Int32Array
from llama_runtime.engine.grammar import Grammar
from llama_runtime.engine.vocabulary import ModelVocabulary
from llama_runtime.generation import Sampling, Token

Row = npt.NDArray[np.float32]

_RANDOM_SEED = 0xFFFFFFFF  # LLAMA_DEFAULT_SEED: llama.cpp draws one by itself


class LogitsUnusable(RuntimeError):
    """The model computed something that is not a number."""

    def __init__(self) -> None:
        super().__init__("The model computed something that is not a number: retry.")


class Sampler:
    """One sequence's way of choosing tokens. Owned by the engine's thread."""

    def __init__(
        self,
        vocabulary: ModelVocabulary,
        sampling: Sampling,
        *,
        ignore_eos: bool,
        grammar: Grammar | None,
    ) -> None:
        self._vocabulary = vocabulary
        self._sampling = sampling
        self._grammar = grammar
        self._forbidden = np.array(vocabulary.end_of_generation, np.int32) if ignore_eos else None
        self._bias_ids = np.array([token for token, _ in sampling.logit_bias], np.int32)
        self._bias = np.array([bias for _, bias in sampling.logit_bias], np.float32)
        self._penalizes = sampling.penalty_last_n != 0 and (
            sampling.repeat_penalty != 1.0
            or sampling.frequency_penalty != 0.0
            or sampling.presence_penalty != 0.0
        )
        self._chain = None if sampling.temperature <= 0 else _chain(sampling)
        self.is_plain_greedy = (
            self._chain is None
            and grammar is None
            and not self._penalizes
            and not len(self._bias)
            and sampling.logprobs is None
        )

    def choose(
        self, context: int | None, index: int, row: Row, history: Int32Array
    ) -> Token | None:
        """The next token, or None when the grammar allows no further one.

        ``row`` is llama.cpp's own buffer of the logits at batch index ``index`` and is
        changed in place. ``history`` is prompt and generated tokens so far.
        """
        plain = row.copy() if self._sampling.logprobs is not None else None
        self._adjust(row, history)
        token = self._draw(context, index, row)
        if self._grammar is not None:
            if token is None or not self._grammar.allows(token):
                self._grammar.mask(row)
                token = self._draw(context, index, row)
            if token is not None and not self._vocabulary.is_end_of_generation(token):
                self._grammar.accept(token)
        if token is None:
            return None
        if plain is None:
            return Token(token)
        return with_logprobs(token, plain, cast(int, self._sampling.logprobs))

    def close(self) -> None:
        if self._chain is not None:
            llama_cpp.llama_sampler_free(self._chain)

    def _adjust(self, row: Row, history: Int32Array) -> None:
        if len(self._bias):
            np.add.at(row, self._bias_ids, self._bias)
        if self._penalizes:
            _penalize(row, self._sampling, history)
        self.forbid(row)

    def forbid(self, row: Row) -> None:
        """End tokens where they are to be ignored: all that a plain greedy one adjusts."""
        if self._forbidden is not None:
            row[self._forbidden] = -np.inf

    def _draw(self, context: int | None, index: int, row: Row) -> int | None:
        best = int(row.argmax())
        highest = float(row[best])
        if highest == -np.inf:
            return None
        if not np.isfinite(highest):
            # llama.cpp's own samplers would abort the process.
            raise LogitsUnusable
        if self._chain is None:
            return best
        return int(llama_cpp.llama_sampler_sample(self._chain, context, index))


def greedy(rows: Sequence[Row] | Row) -> list[int | None]:
    """The most likely token of each row, all rows at once; None where that is no number."""
    rows = np.asarray(rows)
    best = rows.argmax(axis=1)
    usable = np.isfinite(rows[np.arange(len(rows)), best])
    return [
        token if fine else None for token, fine in zip(best.tolist(), usable.tolist(), strict=True)
    ]


def _chain(sampling: Sampling) -> int:
    chain = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
    if sampling.top_k > 0:
        llama_cpp.llama_sampler_chain_add(chain, llama_cpp.llama_sampler_init_top_k(sampling.top_k))
    if sampling.top_p < 1:
        llama_cpp.llama_sampler_chain_add(
            chain, llama_cpp.llama_sampler_init_top_p(sampling.top_p, 1)
        )
    if sampling.min_p > 0:
        llama_cpp.llama_sampler_chain_add(
            chain, llama_cpp.llama_sampler_init_min_p(sampling.min_p, 1)
        )
    llama_cpp.llama_sampler_chain_add(
        chain, llama_cpp.llama_sampler_init_temp(sampling.temperature)
    )
    seed = int.from_bytes(os.urandom(4)) if sampling.seed is None else sampling.seed
    seed &= 0xFFFFFFFF
    if seed == _RANDOM_SEED:
        seed = 0
    llama_cpp.llama_sampler_chain_add(chain, llama_cpp.llama_sampler_init_dist(seed))
    return cast(int, chain)


def _penalize(row: Row, sampling: Sampling, history: Int32Array) -> None:
    window = history if sampling.penalty_last_n < 0 else history[-sampling.penalty_last_n :]
    tokens, counts = np.unique(window, return_counts=True)
    logits = row[tokens]
    logits = np.where(
        logits <= 0, logits * sampling.repeat_penalty, logits / sampling.repeat_penalty
    )
    row[tokens] = logits - counts * sampling.frequency_penalty - sampling.presence_penalty


def with_logprobs(token: int, row: Row, count: int) -> Token:
    """With natural logarithms of its and the ``count`` likeliest tokens' probabilities.

    They are no numbers where the row has one that is none.
    """
    highest = row.max()
    normaliser = float(highest) + float(np.log(np.exp(row - highest).sum(dtype=np.float64)))
    if count:
        top = np.argpartition(row, -count)[-count:] if count < len(row) else np.arange(len(row))
        top = top[np.argsort(-row[top], kind="stable")]
    else:
        top = np.zeros(0, np.int64)
    return Token(
        token,
        float(row[token]) - normaliser,
        tuple((int(other), float(row[other]) - normaliser) for other in top),
    )
