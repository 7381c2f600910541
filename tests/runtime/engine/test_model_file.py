from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from llama_runtime.engine import load_engine
from llama_runtime.engine.model import load_model
from llama_runtime.generation import ModelUnusable
from tests.runtime.engine.driver import tiny_settings
from tests.runtime.engine.tiny_model import write_split_model


def refused(path: Path, **settings: Any) -> ModelUnusable:
    with pytest.raises(ModelUnusable) as raised:
        load_engine(tiny_settings(path, **settings), lambda progress: None)
    return raised.value


def test_a_good_checksum_loads_and_progress_only_grows(tiny_model_path: Path) -> None:
    progress: list[float] = []
    checksum = hashlib.sha256(tiny_model_path.read_bytes()).hexdigest()
    model = load_model(tiny_settings(tiny_model_path, model_sha256=checksum), progress.append)
    assert model.size_bytes == tiny_model_path.stat().st_size
    assert progress == sorted(progress)
    assert progress[-1] == 1.0
    model.close()


def test_each_fault_of_the_file_has_its_reason(tiny_model_path: Path, tmp_path: Path) -> None:
    whole = tiny_model_path.read_bytes()
    truncated = tmp_path / "truncated.gguf"
    truncated.write_bytes(whole[:-1000])
    cut_header = tmp_path / "header.gguf"
    cut_header.write_bytes(whole[:40])
    other = tmp_path / "page.gguf"
    other.write_text("<html>404 Not Found</html>" * 9)
    future = tmp_path / "future.gguf"
    future.write_bytes(b"GGUF\x63" + whole[5:])
    empty = tmp_path / "empty.gguf"
    empty.touch()
    for path in (truncated, cut_header, other, future, empty):
        assert refused(path).reason == "ModelCorrupt"
        assert str(path) in str(refused(path))
    assert refused(tmp_path / "none.gguf").reason == "ModelFileMissing"
    assert refused(tmp_path).reason == "ModelFileUnreadable"
    checksum = refused(tiny_model_path, model_sha256="0" * 64)
    assert checksum.reason == "ModelChecksumMismatch"
    assert hashlib.sha256(whole).hexdigest() in str(checksum)


def test_an_architecture_that_llama_cpp_does_not_know(
    tiny_model_path: Path, tmp_path: Path
) -> None:
    path = tmp_path / "new.gguf"
    path.write_bytes(tiny_model_path.read_bytes().replace(b"llama", b"lmaxx"))
    assert refused(path).reason == "ModelUnsupported"


@pytest.mark.parametrize("tokens", [2**28, 2**30])
def test_a_context_that_no_memory_holds_is_refused_before_it_is_tried(
    tiny_model_path: Path, tokens: int
) -> None:
    error = refused(tiny_model_path, kv_context_per_sequence=tokens)
    assert error.reason == "ContextTooLarge"
    assert "kv.contextPerSequence" in str(error)


def test_a_model_in_several_files_is_named_by_the_first(tmp_path: Path) -> None:
    first, second = write_split_model(tmp_path)
    checksum = hashlib.sha256(first.read_bytes()).hexdigest()
    model = load_model(tiny_settings(first, model_sha256=checksum), lambda progress: None)
    assert model.layers == 1
    model.close()

    assert refused(second).reason == "ModelCorrupt"
    second.unlink()
    assert refused(first).reason == "ModelCorrupt"
    assert second.name in str(refused(first))
