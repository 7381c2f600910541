"""Bars in groups, as an SVG picture."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from tests.bench.figures import number

BAR, GAP, LEFT, TOP, PLOT = 34, 28, 16, 64, 220
COLORS = ("#2f6f9f", "#d98c3f", "#9a9a9a", "#5f9e6e")


def bars(title: str, groups: Mapping[str, Mapping[str, float]]) -> str:
    """One group of bars for each key, in it one bar for each series; the value on each.

    All groups have the same series; values are not negative.
    """
    series = list(next(iter(groups.values())))
    tallest = max(value for values in groups.values() for value in values.values())
    group_width = BAR * len(series) + GAP
    width = max(LEFT * 2 + group_width * len(groups) - GAP, 150 * len(series))
    floor = TOP + PLOT
    parts = [_text(LEFT, 22, title, "start", "font-weight='bold'")]
    for index, name in enumerate(series):
        x = LEFT + 145 * index
        parts += [_bar(x, 34, 12, 12, COLORS[index]), _text(x + 18, 44, name, "start")]
    for position, (label, values) in enumerate(groups.items()):
        left = LEFT + position * group_width
        for index, name in enumerate(series):
            height = PLOT * values[name] / tallest if tallest else 0
            x = left + BAR * index
            parts.append(_bar(x, floor - height, BAR - 4, height, COLORS[index]))
            parts.append(_text(x + BAR / 2 - 2, floor - height - 4, number(values[name])))
        parts.append(_text(left + (group_width - GAP) / 2, floor + 18, label))
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width:.0f} {floor + 28}' "
        f"width='{width:.0f}' font-family='sans-serif' font-size='12' fill='#444'>\n"
        "<rect width='100%' height='100%' fill='white'/>\n" + "\n".join(parts) + "\n</svg>\n"
    )


def _bar(x: float, y: float, width: float, height: float, color: str) -> str:
    return (
        f"<rect x='{x:.1f}' y='{y:.1f}' width='{width:.1f}' height='{height:.1f}' fill='{color}'/>"
    )


def _text(x: float, y: float, text: str, anchor: str = "middle", more: str = "") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' {more}>{escape(text)}</text>"
