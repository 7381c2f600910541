"""Tokens and text of the loaded model."""

from __future__ import annotations

import ctypes
import functools

import llama_cpp

_PIECE_BYTES = 64


class ModelVocabulary:
    """The vocabulary of a loaded model; safe from any thread as long as the model lives."""

    def __init__(self, model: int) -> None:
        self.pointer = llama_cpp.llama_model_get_vocab(model)
        self.size = int(llama_cpp.llama_vocab_n_tokens(self.pointer))
        self._pieces: dict[tuple[int, bool], bytes] = {}

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
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
