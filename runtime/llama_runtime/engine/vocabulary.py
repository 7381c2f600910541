"""Tokens and text of the loaded model."""

from __future__ import annotations

import ctypes
import functools
import itertools
import re
from collections.abc import Mapping

import llama_cpp

_PIECE_BYTES = 64
_SPECIALS_AT_ONCE = 16


class ModelVocabulary:
    """The vocabulary of a loaded model; safe from any thread as long as the model lives."""

    def __init__(self, model: int) -> None:
        self.pointer = llama_cpp.llama_model_get_vocab(model)
        self.size = int(llama_cpp.llama_vocab_n_tokens(self.pointer))
        self._pieces: dict[tuple[int, bool], bytes] = {}

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        parts = self._parts(text, parse_special)
        if len(parts) == 1:
            return self._tokenize(text, add_special, parse_special)
        ends = self._tokenize("", True, parse_special) if add_special else []
        first = int(llama_cpp.llama_vocab_get_add_bos(self.pointer))
        tokens = ends[:first]
        for part in parts:
            tokens += self._tokenize(part, False, parse_special)
        return tokens + ends[first:]

    def _parts(self, text: str, parse_special: bool) -> list[str]:
        """Parts with few special tokens, for llama.cpp looks for each of them in all that follows.

        A part begins with a special token: what stands before it is tokenized as at an end.
        """
        pattern = self._special_texts[parse_special]
        if pattern is None:
            return [text]
        starts = [match.start() for match in pattern.finditer(text) if match.lastgroup is None]
        cuts = [0, *starts[_SPECIALS_AT_ONCE::_SPECIALS_AT_ONCE], len(text)]
        return [text[begin:end] for begin, end in itertools.pairwise(cuts)]

    @functools.cached_property
    def _special_texts(self) -> dict[bool, re.Pattern[str] | None]:
        """What special tokens look like, by parse_special: without it only the model's own.

        The groups have those that take white space before them along.
        """
        own = llama_cpp.LLAMA_TOKEN_ATTR_USER_DEFINED
        every = own | llama_cpp.LLAMA_TOKEN_ATTR_CONTROL | llama_cpp.LLAMA_TOKEN_ATTR_UNKNOWN
        texts: dict[str, int] = {}
        for token in range(self.size):
            attributes = int(llama_cpp.llama_vocab_get_attr(self.pointer, token))
            if attributes & every and (text := self._text(token)):
                texts[text] = attributes
        return {True: _any_of(texts, every), False: _any_of(texts, own)}

    def _tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]:
        encoded = text.encode("utf-8", "surrogatepass")
        capacity = len(encoded) + 8
        while True:
            tokens = (llama_cpp.llama_token * capacity)()
            count = llama_cpp.llama_tokenize(
                self.pointer, encoded, len(encoded), tokens, capacity, add_special, parse_special
            )
            if count >= 0:
                return list(tokens[:count])
            capacity = -count

    @functools.cached_property
    def longest_piece(self) -> int:
        """Bytes of the longest text of a token."""
        return max(len(self.piece(token, special=True)) for token in range(self.size))

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """The bytes of one token; may end inside a UTF-8 character."""
        key = (token, special)
        found = self._pieces.get(key)
        if found is None:
            self._check(token)
            found = self._pieces[key] = self._read_piece(token, special)
        return found

    def _read_piece(self, token: int, special: bool) -> bytes:
        size = _PIECE_BYTES
        while True:
            buffer = ctypes.create_string_buffer(size)
            written = llama_cpp.llama_token_to_piece(self.pointer, token, buffer, size, 0, special)
            if written >= 0:
                return buffer.raw[:written]
            size = -written

    def is_end_of_generation(self, token: int) -> bool:
        self._check(token)
        return bool(llama_cpp.llama_vocab_is_eog(self.pointer, token))

    @functools.cached_property
    def end_of_generation(self) -> tuple[int, ...]:
        """Every token that ends a generation."""
        return tuple(
            token for token in range(self.size) if llama_cpp.llama_vocab_is_eog(self.pointer, token)
        )

    @functools.cached_property
    def control_tokens(self) -> list[int]:
        """Tokens that structure a prompt, as those around a chat's turns; ascending."""
        return [
            token
            for token in range(self.size)
            if llama_cpp.llama_vocab_get_attr(self.pointer, token)
            & llama_cpp.LLAMA_TOKEN_ATTR_CONTROL
        ]

    @property
    def bos_token(self) -> str:
        return self._text(llama_cpp.llama_vocab_bos(self.pointer))

    @property
    def eos_token(self) -> str:
        return self._text(llama_cpp.llama_vocab_eos(self.pointer))

    def _text(self, token: int) -> str:
        if not 0 <= token < self.size:
            return ""
        text: bytes = llama_cpp.llama_vocab_get_text(self.pointer, token)
        return text.decode("utf-8", "replace")

    def _check(self, token: int) -> None:
        # llama.cpp aborts the process for an id outside the vocabulary.
        if not 0 <= token < self.size:
            raise ValueError(f"Token {token} is not one of the {self.size} of this vocabulary.")


def _any_of(texts: Mapping[str, int], wanted: int) -> re.Pattern[str] | None:
    """The longest text first, as llama.cpp looks for them."""
    chosen = sorted((text for text in texts if texts[text] & wanted), key=len, reverse=True)
    if not chosen:
        return None
    strips = llama_cpp.LLAMA_TOKEN_ATTR_LSTRIP
    return re.compile(
        "|".join(
            f"(?P<strips{number}>{re.escape(text)})" if texts[text] & strips else re.escape(text)
            for number, text in enumerate(chosen)
        )
    )
