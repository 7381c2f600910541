"""Tables, and generated blocks inside pages that people write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

BEGIN = "<!-- generated: {name} -->"
END = "<!-- end of generated -->"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; `|` in a cell is escaped."""
    lines = [head, ["---"] * len(head), *rows]
    cells = (" | ".join(cell.replace("|", "\\|") for cell in line) for line in lines)
    return "".join(f"| {line} |\n" for line in cells)


def code(text: str) -> str:
    """Text as code, nothing when there is none."""
    return f"`{text}`" if text else ""


def replace_block(page: str, name: str, content: str) -> str:
    """The page with the content between the markers of that name.

    Raises ValueError when the page has no such markers.
    """
    begin = BEGIN.format(name=name)
    if begin not in page or END not in page.split(begin, 1)[1]:
        raise ValueError(f"The page needs the lines {begin} and {END}.")
    before, rest = page.split(begin, 1)
    after = rest.split(END, 1)[1]
    return f"{before}{begin}\n{content}{END}{after}"
