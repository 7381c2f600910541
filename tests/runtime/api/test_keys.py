"""API keys from a file that changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openai
import pytest

from llama_runtime.api.errors import APIError
from llama_runtime.api.keys import ApiKeys
from tests.runtime.api.conftest import openai_client
from tests.runtime.api.fake_engine import FakeEngine


def is_let_in(keys: ApiKeys, header: str | None) -> bool:
    try:
        keys.check(header)
    except APIError as error:
        return (error.status, error.code) != (401, "invalid_api_key")
    return True


def test_each_line_is_a_key(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("first\n\n  second \r\n")
    keys = ApiKeys(file)
    assert is_let_in(keys, "Bearer first")
    assert is_let_in(keys, "bearer  second")
    for wrong in (None, "", "Bearer", "Bearer ", "Basic first", "first", "Bearer firs", "Bearer é"):
        assert not is_let_in(keys, wrong)


def test_without_a_file_everyone_is_let_in() -> None:
    assert is_let_in(ApiKeys(None), None)


def test_a_swapped_volume_is_noticed(tmp_path: Path) -> None:
    """The kubelet writes a new folder and renames a symbolic link over the old one."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "keys").write_text(name)
    (tmp_path / "..data").symlink_to("one")
    (tmp_path / "keys").symlink_to("..data/keys")
    keys = ApiKeys(tmp_path / "keys")
    assert is_let_in(keys, "Bearer one")
    (tmp_path / "..data_tmp").symlink_to("two")
    (tmp_path / "..data_tmp").rename(tmp_path / "..data")
    assert is_let_in(keys, "Bearer two")
    assert not is_let_in(keys, "Bearer one")


@pytest.mark.parametrize("content", [None, b"", b"\n \n", b"\xff\xfe"])
def test_no_usable_file_lets_nobody_in_until_there_is_one(
    tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "keys"
    if content is not None:
        file.write_bytes(content)
    keys = ApiKeys(file)
    for header in (None, "Bearer ", "Bearer x"):
        assert not is_let_in(keys, header)
    assert keys.problem()
    file.write_text("x")
    assert is_let_in(keys, "Bearer x")
    assert keys.problem() is None


async def test_every_path_needs_a_key(start: Any, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("secret")
    served = await start(FakeEngine(), file)
    for path in ("/v1/models", "/v1/nothing", "/"):
        response = await served.http.get(path)
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == "Bearer"
    with pytest.raises(openai.AuthenticationError) as caught:
        await served.openai.models.list()
    assert caught.value.code == "invalid_api_key"
    async with openai_client(served.url, "secret") as client:
        assert (await client.models.list()).data[0].id == "chat"


async def test_the_engine_hears_who_asks(start: Any, tmp_path: Path) -> None:
    """The key where there are keys, else the address; what a client writes comes second."""
    file = tmp_path / "keys"
    file.write_text("one\ntwo\n")
    for keys, expected in ((None, 1), (file, 2)):
        engine = FakeEngine()
        served = await start(engine, keys)
        for key, user in (("one", "a"), ("two", "a"), ("one", "b")):
            async with openai_client(served.url, key) as client:
                await client.completions.create(model="chat", prompt="x", max_tokens=1, user=user)
        seen = [generation.client for generation in engine.generations]
        assert [user for _, user in seen] == ["a", "a", "b"]
        assert len({who for who, _ in seen}) == expected
        assert seen[0][0] == seen[2][0]
        assert "one" not in str(seen)
