"""Grammars: which tokens may come next. llguidance does it; it gives up instead of hanging.

llama.cpp's own matcher keeps every way to read the text so far: a grammar of 40 bytes can
double them with each character, and what it doesn't expect aborts the process.
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict

import numpy as np
import numpy.typing as npt
from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper

from llama_runtime.engine.gbnf import lark_of
from llama_runtime.engine.vocabulary import ModelVocabulary
from llama_runtime.generation import GrammarFailed, InvalidGeneration

Row = npt.NDArray[np.float32]

# What one step may cost; measured: milliseconds for what reaches it.
LIMITS = LLParserLimits(
    max_items_in_row=2000,
    step_max_items=5000,
    initial_lexer_fuel=1_000_000,
    step_lexer_fuel=200_000,
    max_lexer_states=50_000,
    max_grammar_size=200_000,
    verbose_errors=False,
)
REMEMBERED = 64


class Grammars:
    """The grammars of one model, compiled; safe from any thread."""

    def __init__(self, vocabulary: ModelVocabulary) -> None:
        self._vocabulary = vocabulary
        self._lock = threading.Lock()
        self._compiled: OrderedDict[str, LLMatcher] = OrderedDict()

    def start(self, text: str) -> Grammar:
        """At the beginning of an answer. Raises InvalidGeneration for what can't be used.

        Compiling takes up to a second and lets other threads run; a text that was seen
        lately takes no time.
        """
        with self._lock:
            matcher = self._compiled.get(text)
        # Without the lock: who wants another grammar, on the event loop too, must not wait.
        matcher = matcher or self._compile(text)
        with self._lock:
            self._compiled[text] = matcher
            self._compiled.move_to_end(text)
            while len(self._compiled) > REMEMBERED:
                self._compiled.popitem(last=False)
            return Grammar(self._vocabulary, matcher.deep_copy())

    @functools.cached_property
    def _tokenizer(self) -> LLTokenizer:
        return _tokenizer(self._vocabulary)

    def _compile(self, text: str) -> LLMatcher:
        lark = lark_of(text)
        matcher = LLMatcher(self._tokenizer, lark, log_level=0, limits=LIMITS)
        if not matcher.is_error():
            matcher.compute_bitmask()  # what is too much at once is so at the first step
        if matcher.is_error():
            raise InvalidGeneration(
                f"The grammar can't be used ({_reason(matcher)}): "
                "make it smaller or less ambiguous."
            )
        return matcher


class Grammar:
    """A grammar and how far the generated text has come in it. Owned by the engine's thread."""

    def __init__(self, vocabulary: ModelVocabulary, matcher: LLMatcher) -> None:
        self._vocabulary = vocabulary
        self._matcher = matcher
        self._ends = np.array(vocabulary.end_of_generation, np.int64)

    def allows(self, token: int) -> bool:
        if self._vocabulary.is_end_of_generation(token):
            return bool(self._matcher.is_accepting())
        return bool(self._matcher.validate_tokens([token]))

    def mask(self, row: Row) -> None:
        """Set the logits of everything that is not allowed to minus infinity.

        Raises GrammarFailed when that takes more than a step may cost.
        """
        packed = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        self._check()
        allowed = np.unpackbits(packed, count=len(row), bitorder="little").astype(bool)
        allowed[self._ends] = self._matcher.is_accepting()
        row[~allowed] = -np.inf

    def accept(self, token: int) -> None:
        """Go on behind a token; raises GrammarFailed as mask does, and for one not allowed."""
        self._matcher.consume_token(token)
        self._check()

    def _check(self) -> None:
        if self._matcher.is_error() and self._matcher.stop_reason() != "NoExtension":
            raise GrammarFailed(
                f"The grammar became too much to follow ({_reason(self._matcher)}): "
                "make it smaller or less ambiguous."
            )


def _tokenizer(vocabulary: ModelVocabulary) -> LLTokenizer:
    return LLTokenizer(
        TokenizerWrapper(_Pieces(vocabulary)), eos_token=list(vocabulary.end_of_generation)
    )


class _Pieces:
    """The vocabulary as llguidance wants it. Control tokens are never the text they show."""

    bos_token_id = None

    def __init__(self, vocabulary: ModelVocabulary) -> None:
        self.eos_token_id = vocabulary.end_of_generation[0]
        self.special_token_ids = vocabulary.control_tokens
        self.tokens = [vocabulary.piece(token, special=True) for token in range(vocabulary.size)]
        self._vocabulary = vocabulary

    def __call__(self, text: bytes) -> list[int]:
        return self._vocabulary.tokenize(
            text.decode("utf-8", "replace"), add_special=False, parse_special=False
        )


def _reason(matcher: LLMatcher) -> str:
    lines = [line for line in matcher.get_error().splitlines() if line.strip()]
    return lines[0].strip() if lines else str(matcher.stop_reason())
