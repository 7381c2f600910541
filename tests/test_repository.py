"""What must hold for the repository as a whole."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
PAGES = sorted(
    [*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md"), *REPOSITORY.glob("examples/*.md")]
)


def test_the_folder_operator_does_not_shadow_the_standard_library() -> None:
    assert not (REPOSITORY / "operator/__init__.py").exists()
    found = subprocess.run(
        [sys.executable, "-c", "import operator; print(operator.__file__)"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(REPOSITORY) not in found.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text())
    broken = [target for target in targets if not (page.parent / target).exists()]
    assert not broken


def test_the_readme_names_only_targets_that_exist() -> None:
    makefile = (REPOSITORY / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE))
    named: set[str] = set()
    for page in PAGES:
        named |= set(
            re.findall(r"(?:`|^ {4}|\$ )make ([a-z0-9-]+)", page.read_text(), re.MULTILINE)
        )
    assert named <= targets


def test_the_lock_names_no_index() -> None:
    for lock in REPOSITORY.glob("requirements/*.txt"):
        assert "://" not in lock.read_text(), lock
