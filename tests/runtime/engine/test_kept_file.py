"""The file of kept sequences: what is written is read, anything else is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llama_runtime.engine import kept_file
from llama_runtime.engine.kept_file import FILE_NAME, KeptSequence, State, Unusable

IDENTITY: dict[str, object] = {"model": [7, 8, "abc"], "layout": "Unified"}
STATE = np.arange(200, dtype=np.uint8)


def sequence(id: int, length: int) -> KeptSequence:  # noqa: A002
    tokens = np.arange(length, dtype=np.int32)
    return KeptSequence(id, tokens, tokens[::-1].copy())


def save(state: State) -> bool:
    state[:] = STATE
    return True


def write(directory: Path) -> Path:
    kept_file.write(directory, IDENTITY, [sequence(3, 5), sequence(0, 1)], len(STATE), save)
    return directory / FILE_NAME


def test_what_is_written_is_read_once(tmp_path: Path) -> None:
    path = write(tmp_path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]
    found = kept_file.read(tmp_path, IDENTITY)
    assert found is not None
    sequences, state = found
    assert [one.id for one in sequences] == [3, 0]
    assert sequences[0].tokens.tolist() == [0, 1, 2, 3, 4]
    assert sequences[0].cells.tolist() == [4, 3, 2, 1, 0]
    assert state.tolist() == STATE.tolist()
    assert kept_file.read(tmp_path, IDENTITY) is None


def test_nothing_was_kept(tmp_path: Path) -> None:
    assert kept_file.read(tmp_path, IDENTITY) is None
    assert kept_file.read(tmp_path / "missing", IDENTITY) is None


@pytest.mark.parametrize(
    ("identity", "message"),
    [
        ({"model": [7, 9, "abc"], "layout": "Unified"}, "other model"),
        ({"model": [7, 8, "abc"], "layout": "Partitioned"}, "other layout"),
        ({"model": [7, 8, "abc"]}, "other layout"),
        ({**IDENTITY, "typeK": "f16"}, "other typeK"),
    ],
)
def test_another_model_or_context_gets_nothing(
    tmp_path: Path, identity: dict[str, object], message: str
) -> None:
    path = write(tmp_path)
    with pytest.raises(Unusable, match=message):
        kept_file.read(tmp_path, identity)
    assert not path.exists()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_a_damaged_file_is_refused_and_removed(tmp_path: Path, data: st.DataObject) -> None:
    path = write(tmp_path)
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        cut = data.draw(st.integers(0, len(content) - 1))
        content = content[:cut]
    else:
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    with pytest.raises(Unusable):
        kept_file.read(tmp_path, IDENTITY)
    assert not path.exists()


@given(content=st.binary(max_size=300))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_other_file_is_refused(tmp_path: Path, content: bytes) -> None:
    for text in (content, b"llamakv1" + content):
        (tmp_path / FILE_NAME).write_bytes(text)
        with pytest.raises(Unusable):
            kept_file.read(tmp_path, IDENTITY)


def test_a_file_that_is_not_finished_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="did not save"):
        kept_file.write(tmp_path, IDENTITY, [sequence(0, 1)], 10, lambda state: False)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_over_is_removed(tmp_path: Path) -> None:
    (tmp_path / f".{FILE_NAME}.17").write_bytes(b"half")
    assert kept_file.read(tmp_path, IDENTITY) is None
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError):  # noqa: PT011
        kept_file.write(tmp_path, IDENTITY, [sequence(0, 1)], 1 << 60, save)
    assert list(tmp_path.iterdir()) == []
