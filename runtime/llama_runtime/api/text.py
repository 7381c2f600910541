"""From tokens to text: whole characters only, and stop strings never leak out."""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from llama_runtime.generation import Token, Vocabulary


@dataclass(frozen=True, slots=True)
class Increment:
    """Text that is safe to send, and the tokens that began in it, each with its offset.

    Only the last increment of an answer has a ``finish_reason``.
    """

    text: str = ""
    tokens: tuple[tuple[Token, int], ...] = ()
    finish_reason: str | None = None

    def __bool__(self) -> bool:
        return bool(self.text or self.tokens or self.finish_reason)

    def behind(self, text: str) -> Increment:
        """The same in a text that begins with another: the offsets count from there."""
        return replace(
            self, tokens=tuple((token, offset + len(text)) for token, offset in self.tokens)
        )


def held_from(text: str, markers: Sequence[str]) -> int:
    """Where the end of ``text`` could be the start of a marker; its length if nowhere."""
    longest = max((len(marker) for marker in markers), default=1) - 1
    for start in range(max(0, len(text) - longest), len(text)):
        tail = text[start:]
        if any(marker.startswith(tail) for marker in markers):
            return start
    return len(text)


class StopFinder:
    """Looks for stop strings in text that comes in pieces."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.found = False

    def feed(self, text: str) -> str:
        """What may be sent: up to a stop string, and nothing that could still become one."""
        text = self._held + text
        starts = [start for stop in self._stops if (start := text.find(stop)) >= 0]
        if starts:
            self.found = True
            self._held = ""
            return text[: min(starts)]
        keep = held_from(text, self._stops)
        self._held = text[keep:]
        return text[:keep]

    def rest(self) -> str:
        """What was held back, once nothing more will come."""
        rest, self._held = self._held, ""
        return rest


class Transcript:
    """The text of one generation as it grows."""

    def __init__(
        self, vocabulary: Vocabulary, stops: Sequence[str] = (), shown: frozenset[int] = frozenset()
    ) -> None:
        """``shown`` are special tokens whose text is part of the answer (tool markers)."""
        self._vocabulary = vocabulary
        self._shown = shown
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._finder = StopFinder(stops)
        self._waiting: deque[tuple[Token, int]] = deque()
        self._decoded = 0
        self._sent = 0
        self.tokens = 0

    @property
    def stopped(self) -> bool:
        """A stop string was found: nothing more belongs to the answer."""
        return self._finder.found

    def add(self, token: Token) -> Increment:
        self.tokens += 1
        self._waiting.append((token, self._decoded))
        piece = self._vocabulary.piece(token.id, special=token.id in self._shown)
        text = self._decoder.decode(piece)
        self._decoded += len(text)
        return self._send(self._finder.feed(text))

    def finish(self) -> Increment:
        """What is left: a half character becomes U+FFFD, as it can't be completed."""
        if self.stopped:
            return Increment()
        text = self._finder.feed(self._decoder.decode(b"", final=True))
        if not self.stopped:
            text += self._finder.rest()
        increment = self._send(text)
        if self.stopped:
            return increment
        left, self._waiting = tuple(self._waiting), deque()
        return Increment(increment.text, increment.tokens + left)

    def _send(self, text: str) -> Increment:
        self._sent += len(text)
        tokens = []
        while self._waiting and self._waiting[0][1] < self._sent:
            tokens.append(self._waiting.popleft())
        return Increment(text, tuple(tokens))
