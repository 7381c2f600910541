"""docs/bench-runtime.md: the last figures as a table, the speeds as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.bench import chart, report
from tests.bench.figures import Figure
from tests.bench.runtime.scenarios.throughput import SPEED_NAME

PAGE = "bench-runtime.md"

Speeds = dict[str, dict[str, float]]
"""Tokens per second by number of streams and by server."""


def write(folder: Path, figures: Sequence[Figure]) -> None:
    """Put the figures into the page of that folder, and a picture beside it for each model."""
    pictures = []
    for quantization, speeds in speeds_by_quantization(figures).items():
        title = f"{quantization}: generated tokens a second, by number of streams"
        name = f"bench-runtime-{quantization.lower()}.svg"
        (folder / name).write_text(chart.bars(title, speeds))
        pictures.append(f"![{title}]({name})")
    page = folder / PAGE
    content = "\n\n".join([*pictures, report.markdown(figures)])
    page.write_text(report.replace_figures(page.read_text(), content))


def speeds_by_quantization(figures: Sequence[Figure]) -> dict[str, Speeds]:
    """The speeds of every server, found by the names of their figures."""
    found: dict[str, Speeds] = {}
    for figure in figures:
        if match := SPEED_NAME.fullmatch(figure.name):
            quantization, streams, server = match.groups()
            found.setdefault(quantization, {}).setdefault(streams, {})[server] = figure.value
    return found
