"""A model file that couldn't be used is tried again once it has changed and stands still."""

from __future__ import annotations

from pathlib import Path

from llama_runtime.model_watch import ModelWatch, signature


def test_the_same_file_is_not_tried_again(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    file.write_text("bad")
    watch = ModelWatch(signature(file))
    assert not watch.look(signature(file))
    assert not watch.look(signature(file))


def test_a_file_that_appears_is_tried_when_it_stops_growing(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    watch = ModelWatch(signature(file))
    assert not watch.look(signature(file))
    for part in ("a", "ab", "abc"):
        file.write_text(part)
        assert not watch.look(signature(file))
    assert watch.look(signature(file))


def test_a_file_that_vanishes_is_not_tried(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    file.write_text("bad")
    watch = ModelWatch(signature(file))
    file.unlink()
    assert not watch.look(signature(file))
    assert not watch.look(signature(file))


def test_new_permissions_are_a_change(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    file.write_text("good")
    before = signature(file)
    file.chmod(0o600)
    assert signature(file) != before
