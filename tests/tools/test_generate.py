"""The generated files are those that the code makes."""

from __future__ import annotations

from pathlib import Path

import pytest

import generate
from generated.markdown import replace_block, table


def test_the_files_of_this_tree_are_up_to_date() -> None:
    stale = generate.different(generate.generate(), generate.REPOSITORY)

    assert stale == [], "run make generate"


def test_a_missing_and_a_changed_file_are_named(tmp_path: Path) -> None:
    (tmp_path / "same").write_text("1")
    (tmp_path / "changed").write_text("1")
    files = {"same": "1", "changed": "2", "missing": "3"}

    assert generate.different(files, tmp_path) == ["changed", "missing"]


def test_check_fails_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate, "REPOSITORY", tmp_path)
    monkeypatch.setattr(generate, "generate", lambda: {"docs/page.md": "text"})

    assert generate.main(["--check"]) == 1
    assert "docs/page.md" in capsys.readouterr().err
    assert not (tmp_path / "docs").exists()

    assert generate.main([]) == 0
    assert (tmp_path / "docs/page.md").read_text() == "text"
    assert generate.main(["--check"]) == 0


def test_a_block_is_replaced_between_its_markers() -> None:
    page = "before\n<!-- generated: values -->\nold\n<!-- end of generated -->\nafter\n"

    assert replace_block(page, "values", "new\n") == page.replace("old", "new")
    with pytest.raises(ValueError, match="generated: other"):
        replace_block(page, "other", "new\n")


def test_a_table_escapes_its_separator() -> None:
    assert table(("a",), [("x|y",)]) == "| a |\n| --- |\n| x\\|y |\n"
