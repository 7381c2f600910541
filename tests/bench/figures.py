"""The figures of a bench: what was measured, what was wanted, and the file that holds them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Literal

Better = Literal["higher", "lower"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value; target None means that nothing was promised."""

    name: str
    value: float
    unit: str
    better: Better
    target: float | None
    note: str

    @property
    def met(self) -> bool | None:
        """Whether the target was reached; None without one."""
        if self.target is None:
            return None
        return self.value >= self.target if self.better == "higher" else self.value <= self.target


@dataclass(frozen=True, slots=True)
class Rounds:
    """The values of one quantity, one a round."""

    values: tuple[float, ...]
    better: Better

    @property
    def best(self) -> float:
        return max(self.values) if self.better == "higher" else min(self.values)

    def describe(self, unit: str) -> str:
        """The best with the median and the spread beside it, for a note."""
        if len(self.values) == 1:
            return f"{number(self.best)} {unit}"
        spread = f"{number(min(self.values))}-{number(max(self.values))}"
        return f"{number(self.best)} {unit} (median {number(median(self.values))}, {spread})"


def rounds(values: Iterable[float], better: Better) -> Rounds:
    """The values of one quantity over the rounds; at least one."""
    held = tuple(values)
    if not held:
        raise ValueError("A quantity needs at least one round.")
    return Rounds(held, better)


def ratio(
    name: str, ours: Rounds, peer: Rounds, peer_name: str, unit: str, target: float | None
) -> Figure:
    """Ours over the peer's, best of each, from rounds that took turns in one run."""
    return Figure(
        name=name,
        value=ours.best / peer.best,
        unit="x",
        better=ours.better,
        target=target,
        note=f"{ours.describe(unit)} against {peer_name}'s {peer.describe(unit)}",
    )


def percentile(values: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile: always one of the values."""
    if not values:
        raise ValueError("A percentile needs at least one value.")
    if not 0 <= percent <= 100:
        raise ValueError(f"A percentile lies between 0 and 100, not at {percent}.")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def number(value: float) -> str:
    """Three significant digits, without an exponent."""
    if value == 0 or abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.{2 - math.floor(math.log10(abs(value)))}f}"


def write(path: Path, figures: Sequence[Figure]) -> None:
    """Write a list of objects with the fields of Figure."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = [asdict(figure) for figure in figures]
    path.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n")


def merged(before: Sequence[Figure], after: Sequence[Figure]) -> list[Figure]:
    """The new figures, in the places of those with their names, and the others as they were."""
    new = {figure.name: figure for figure in after}
    return [*(new.pop(figure.name, figure) for figure in before), *new.values()]


def read(path: Path) -> list[Figure]:
    """The figures that ``write`` wrote."""
    return [Figure(**item) for item in json.loads(path.read_text())]
