"""When a model file that couldn't be used is worth another try."""

from __future__ import annotations

from pathlib import Path

Signature = tuple[int, int, int, int, int] | None


def signature(path: Path) -> Signature:
    """What changes when a file or its permissions do; None: there is none to read."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


class ModelWatch:
    """Says once that a file has changed, when it has also stopped changing.

    A copy that is still being written looks different at each look; loading it
    would fail and be repeated until it is complete.
    """

    def __init__(self, tried: Signature) -> None:
        self._tried = tried
        self._last = tried

    def look(self, now: Signature) -> bool:
        """Whether to load it: it is there, unlike the one tried, and like at the last look."""
        settled = now is not None and now == self._last
        self._last = now
        return settled and now != self._tried
