"""Programs: what is there is left alone, what is missing is installed, or there is a sentence."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import programs


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Puts an apt-get with a script on an otherwise empty PATH; returns the file of its calls."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    def write(script: str) -> Path:
        calls = tmp_path / "calls"
        program = folder / "apt-get"
        program.write_text(f'#!/bin/sh\necho "$1" >> {calls}\n{script}\n')
        program.chmod(0o755)
        return calls

    return write


def test_a_program_that_is_there_is_not_installed(apt: Callable[[str], Path]) -> None:
    calls = apt("exit 0")
    lines: list[str] = []
    assert programs.need(lines.append, "apt-get") is None
    assert lines == []
    assert not calls.exists()


def test_a_missing_program_is_installed(apt: Callable[[str], Path]) -> None:
    calls = apt("exit 0")
    lines: list[str] = []
    assert programs.need(lines.append, "apt-get", "buildah", "debootstrap") is None
    assert lines == ["installing buildah debootstrap with apt-get"]
    assert calls.read_text().split() == ["install"]


def test_the_lists_are_fetched_when_they_are_missing(
    apt: Callable[[str], Path], tmp_path: Path
) -> None:
    calls = apt(f'[ "$1" = update ] && : > {tmp_path}/lists\n[ -e {tmp_path}/lists ]')
    assert programs.need(lambda _: None, "buildah") is None
    assert calls.read_text().split() == ["install", "update", "install"]


def test_what_cannot_be_installed_is_said(apt: Callable[[str], Path]) -> None:
    apt("exit 1")
    problem = programs.need(lambda _: None, "buildah")
    assert problem is not None
    assert "lacks buildah" in problem


def test_without_root_it_says_what_to_install(
    apt: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = apt("exit 0")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert programs.need(lambda _: None, "buildah") == (
        "This machine lacks buildah: as root, apt-get install buildah."
    )
    assert not calls.exists()


def test_a_machine_without_apt_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert programs.need(lambda _: None, "buildah") == (
        "This machine lacks buildah; use its package manager."
    )
