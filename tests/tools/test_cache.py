"""The cache: keys, entries that are whole or absent, one builder at a time."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cache


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LLAMA_OPERATOR_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def write(text: str) -> Path:
    path = cache.root() / "input"
    path.mkdir(parents=True, exist_ok=True)
    (path / "file").write_text(text)
    return path


def test_root_follows_the_environment(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    assert cache.root() == root
    monkeypatch.delenv("LLAMA_OPERATOR_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache.root() == Path("/somewhere/llama-operator")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert cache.root() == Path("/home/someone/.cache/llama-operator")


def test_digest_changes_with_a_file_its_name_and_its_content() -> None:
    folder = write("one")
    first = cache.digest(code=folder)
    assert cache.digest(code=folder) == first
    (folder / "file").write_text("two")
    second = cache.digest(code=folder)
    (folder / "file").rename(folder / "other")
    third = cache.digest(code=folder)
    (folder / "more").touch()
    assert len({first, second, third, cache.digest(code=folder)}) == 4


def test_digest_ignores_what_python_compiles() -> None:
    folder = write("one")
    before = cache.digest(code=folder)
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "file.pyc").write_bytes(b"x")
    assert cache.digest(code=folder) == before


@settings(deadline=None, max_examples=30)
@given(st.dictionaries(st.sampled_from("abc"), st.text(max_size=4)), st.data())
def test_digest_keeps_inputs_apart(inputs: dict[str, str], data: st.DataObject) -> None:
    other = data.draw(st.dictionaries(st.sampled_from("abc"), st.text(max_size=4)))
    assert (cache.digest(**inputs) == cache.digest(**other)) == (inputs == other)


def test_entry_is_built_once() -> None:
    calls: list[Path] = []

    def build(folder: Path) -> None:
        calls.append(folder)
        (folder / "result").write_text("made")

    first = cache.entry("kind", "key", build)
    second = cache.entry("kind", "key", build)
    assert first == second
    assert (first / "result").read_text() == "made"
    assert len(calls) == 1
    assert cache.holds("kind", "key")


def test_entry_can_be_read_by_others() -> None:
    folder = cache.entry("kind", "key", lambda folder: None)
    assert folder.stat().st_mode & 0o055 == 0o055


def test_entry_that_failed_leaves_nothing_and_starts_anew() -> None:
    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        cache.entry("kind", "key", fail)
    assert not cache.holds("kind", "key")
    folder = cache.entry("kind", "key", lambda folder: (folder / "whole").touch())
    assert [path.name for path in folder.iterdir()] == ["whole"]


def test_entries_last_used_stay() -> None:
    for number in range(4):
        folder = cache.entry("kind", str(number), lambda folder: None, keep=9)
        os.utime(folder, (number, number))
    cache.entry("kind", "0", lambda folder: None, keep=2)
    assert {number for number in "0123" if cache.holds("kind", number)} == {"0", "3"}


def add_line(log: Path) -> None:
    def build(folder: Path) -> None:
        with log.open("a") as file:
            file.write("built\n")
        (folder / "result").touch()

    assert (cache.entry("kind", "key", build) / "result").exists()


def test_processes_build_an_entry_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    context = multiprocessing.get_context("fork")
    with cache.lock("kind-key"):
        processes = [context.Process(target=add_line, args=(log,)) for _ in range(3)]
        for process in processes:
            process.start()
        assert not log.exists()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert log.read_text() == "built\n"
