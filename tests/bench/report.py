"""Figures as a table: on the terminal and in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from tests.bench.figures import Figure, number

BEGIN = "<!-- figures: written by the bench -->"
END = "<!-- end of figures -->"


def table(title: str, figures: Sequence[Figure]) -> Table:
    """A row for each figure; targets that were missed are red."""
    shown = Table(title=title, title_justify="left")
    for heading in ("figure", "value", "target", "met", "note"):
        shown.add_column(heading, overflow="fold")
    for figure in figures:
        style = {True: "green", False: "red", None: None}[figure.met]
        shown.add_row(figure.name, _value(figure), _target(figure), _met(figure), figure.note,
                      style=style)  # fmt: skip
    return shown


def markdown(figures: Sequence[Figure]) -> str:
    """The same table for the docs."""
    lines = ["| figure | value | target | met | note |", "|---|---|---|---|---|"]
    lines += [
        f"| {figure.name} | {_value(figure)} | {_target(figure)} | {_met(figure)} | {figure.note} |"
        for figure in figures
    ]
    return "\n".join(lines)


def replace_figures(page: str, content: str) -> str:
    """The page with what stands between its two marker lines replaced."""
    before, found_begin, rest = page.partition(BEGIN)
    _, found_end, after = rest.partition(END)
    if not (found_begin and found_end):
        raise ValueError(f"The page needs the lines {BEGIN} and {END}: write them where "
                         "the figures belong.")  # fmt: skip
    return f"{before}{BEGIN}\n\n{content}\n\n{END}{after}"


def _value(figure: Figure) -> str:
    return f"{number(figure.value)} {figure.unit}"


def _target(figure: Figure) -> str:
    if figure.target is None:
        return ""
    return f"{'≥' if figure.better == 'higher' else '≤'} {number(figure.target)} {figure.unit}"


def _met(figure: Figure) -> str:
    return {True: "yes", False: "no", None: ""}[figure.met]
