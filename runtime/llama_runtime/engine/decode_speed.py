"""How fast tokens come, against what the same process did when its cache was packed.

A step's time depends on how many sequences are in it and how far they are; so only steps
that are alike in both are compared, by their medians: one slow step says nothing.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median

ENOUGH = 16
"""Steps whose median is worth showing."""

_BASELINE_STEPS = 32
_MOST_KINDS = 1024
_FINEST = 256  # llama-kv-cache.cpp: attention spans a multiple of 256 cells
_PACKED = 0.1
_PARTS = 8

Kind = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class DecodeStep:
    """A step in which every sequence got one token, and the cache during it.

    depth: tokens of the longest sequence; used and span in cells, of ``capacity``.
    """

    sequences: int
    depth: int
    seconds: float
    used: int
    span: int
    capacity: int

    @property
    def is_packed(self) -> bool:
        return self.used >= self.span * (1 - _PACKED)

    @property
    def kind(self) -> Kind:
        """What makes two steps comparable: sequences, depth, and how full the cache is."""
        width = max(_FINEST, 1 << max(self.depth.bit_length() - 5, 0))
        return self.sequences, self.depth // width * width, self.used * _PARTS // self.capacity


@dataclass(frozen=True, slots=True)
class Reading:
    """Tokens per second of all sequences together; slowdown is 1 - now / baseline, at least 0."""

    tokens_per_second: float
    baseline: float
    depth: int

    @property
    def slowdown(self) -> float:
        return max(1 - self.tokens_per_second / self.baseline, 0.0)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Tokens per second before and after a mark, at the same depth in tokens."""

    before: float
    after: float
    depth: int


@dataclass(slots=True)
class _Speeds:
    depth: int = 0
    baseline: float | None = None
    first: list[float] = field(default_factory=list)
    late: deque[float] = field(default_factory=lambda: deque(maxlen=_BASELINE_STEPS))

    @property
    def now(self) -> float | None:
        return median(self.late) if len(self.late) >= ENOUGH else None

    def add(self, speed: float, *, is_packed: bool) -> None:
        if self.baseline is not None or not is_packed:
            self.late.append(speed)
            return
        self.first.append(speed)
        if len(self.first) == _BASELINE_STEPS:
            self.baseline = median(self.first)
            self.first.clear()


class DecodeSpeed:
    """Fed with every step that only generates. Owned by the engine's thread."""

    def __init__(self) -> None:
        self._speeds: dict[Kind, _Speeds] = {}
        self._last: Kind | None = None
        self._before: dict[Kind, float] = {}
        self._after: dict[Kind, list[float]] = {}
        self._comparison: Comparison | None = None

    def record(self, step: DecodeStep) -> None:
        kind = step.kind
        if kind not in self._speeds and len(self._speeds) >= _MOST_KINDS:
            return
        speed = step.sequences / step.seconds
        speeds = self._speeds.setdefault(kind, _Speeds())
        speeds.depth = step.depth
        speeds.add(speed, is_packed=step.is_packed)
        if speeds.baseline is not None and len(speeds.late) >= ENOUGH:
            self._last = kind
        if kind in self._before and self._comparison is None:
            after = self._after.setdefault(kind, [])
            after.append(speed)
            if len(after) == ENOUGH:
                self._comparison = Comparison(self._before[kind], median(after), step.depth)

    @property
    def reading(self) -> Reading | None:
        """Of the latest kind of step whose speeds, young and late, are both known."""
        if self._last is None:
            return None
        speeds = self._speeds[self._last]
        if speeds.baseline is None or speeds.now is None:
            return None
        return Reading(speeds.now, speeds.baseline, speeds.depth)

    def mark(self) -> None:
        """The cache changes now: what comes is compared with what was."""
        self._before = {
            kind: speeds.now for kind, speeds in self._speeds.items() if speeds.now is not None
        }
        self._after.clear()
        self._comparison = None
        for speeds in self._speeds.values():
            speeds.late.clear()

    @property
    def since_mark(self) -> Comparison | None:
        """None until enough steps came of a kind that was there before the mark too."""
        return self._comparison
