from __future__ import annotations

import io

import pytest
from rich.console import Console

from tests.bench import report
from tests.bench.figures import Figure

MISSED = Figure("gap", 0.6, "x", "lower", 0.5, "0.6 s against 1 s")
MET = Figure("speed", 1.02, "x", "higher", 1.0, "")
FREE = Figure("memory", 338.2, "MiB", "lower", None, "nothing was promised")


def test_the_table_says_what_was_met_and_what_was_not() -> None:
    output = io.StringIO()
    Console(file=output, width=160).print(report.table("Bench", [MISSED, MET, FREE]))
    rows = {line.split("│")[1].strip(): line for line in output.getvalue().splitlines()
            if "│" in line}  # fmt: skip
    assert [cell.strip() for cell in rows["gap"].split("│")[2:6]] == [
        "0.600 x", "≤ 0.500 x", "no", "0.6 s against 1 s",
    ]  # fmt: skip
    assert [cell.strip() for cell in rows["speed"].split("│")[2:5]] == ["1.02 x", "≥ 1.00 x", "yes"]
    assert [cell.strip() for cell in rows["memory"].split("│")[2:5]] == ["338 MiB", "", ""]


def test_markdown_has_a_row_for_each_figure() -> None:
    lines = report.markdown([MISSED, FREE]).splitlines()
    assert lines[2:] == [
        "| gap | 0.600 x | ≤ 0.500 x | no | 0.6 s against 1 s |",
        "| memory | 338 MiB |  |  | nothing was promised |",
    ]


def test_only_the_figures_of_a_page_are_replaced() -> None:
    page = f"before\n{report.BEGIN}\n\nold\n\n{report.END}\nafter\n"
    once = report.replace_figures(page, "new")
    assert once == f"before\n{report.BEGIN}\n\nnew\n\n{report.END}\nafter\n"
    assert report.replace_figures(once, "new") == once


def test_a_page_without_the_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="needs the lines"):
        report.replace_figures(f"before {report.BEGIN} after", "new")
