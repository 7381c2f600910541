"""The prompt as the beginning of its answer's text."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass

from llama_runtime.api.text import Increment
from llama_runtime.generation import Token, Vocabulary


@dataclass(frozen=True, slots=True)
class Echo:
    """A prompt's text, and where in it each of its tokens begins."""

    text: str = ""
    offsets: tuple[int, ...] = ()

    @classmethod
    def of(cls, prompt: str | list[int], tokens: Sequence[int], vocabulary: Vocabulary) -> Echo:
        """``tokens`` of the prompt, which is echoed as it was sent if it is text."""
        joined, offsets = _joined(tokens, vocabulary)
        if not isinstance(prompt, str):
            return cls(joined, tuple(offsets))
        # A tokenizer may put a special token or a space in front.
        added = max(joined.rfind(prompt), 0)
        return cls(prompt, tuple(min(max(each - added, 0), len(prompt)) for each in offsets))

    def scored(self, scores: Sequence[Token]) -> Increment:
        """``scores``: of the prompt's tokens, or none if nobody asked for them."""
        return Increment(self.text, tuple(zip(scores, self.offsets, strict=False)))


def _joined(tokens: Sequence[int], vocabulary: Vocabulary) -> tuple[str, list[int]]:
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    pieces: list[str] = []
    offsets: list[int] = []
    length = 0
    for token in tokens:
        offsets.append(length)
        pieces.append(decoder.decode(vocabulary.piece(token, special=True)))
        length += len(pieces[-1])
    pieces.append(decoder.decode(b"", final=True))
    return "".join(pieces), offsets
