"""When each watch was heard last: a stream that is open and silent looks like one at rest.

The API server sends a bookmark about every minute on each watch that has nothing else to tell
(KEP-956), and kopf opens a watch anew after 70 s without one. A stream that stays silent for
longer is dead, whatever its connection says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

SUSPICIOUS_SECONDS: Final = 150.0
"""A bookmark was due twice. What the stream may owe is listed from here on."""

DEAD_SECONDS: Final = 300.0


class Freshness:
    """The age of the last bytes of each stream."""

    def __init__(self, clock: Callable[[], float], streams: Iterable[str]) -> None:
        """`streams` are the URL paths of the watched collections."""
        self._clock = clock
        self._heard = dict.fromkeys(streams, clock())
        self._listed = clock()

    def begin(self) -> None:
        """The streams begin now."""
        self._heard = dict.fromkeys(self._heard, self._clock())

    def heard(self, path: str) -> None:
        """Bytes have come from the collection at this path."""
        if path in self._heard:
            self._heard[path] = self._clock()

    def listed(self) -> None:
        """The API server has answered: silence of a stream is not its silence."""
        self._listed = self._clock()

    def silence(self) -> float:
        """Seconds since the stream that is silent longest was heard."""
        return self._clock() - min(self._heard.values())

    def suspicious(self) -> bool:
        """Some stream should have been heard, and its silence was not bridged by a list lately."""
        since = self._clock() - self._listed
        return self.silence() >= SUSPICIOUS_SECONDS and since >= SUSPICIOUS_SECONDS / 2

    def dead(self) -> str | None:
        """The path of a stream that is dead while the API server answers."""
        path = min(self._heard, key=lambda stream: self._heard[stream])
        answers = self._listed - self._heard[path] >= SUSPICIOUS_SECONDS / 2
        return path if answers and self.silence() >= DEAD_SECONDS else None
