"""Cached sequences over a restart: the account stays exact, prompts hit, answers are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from llama_runtime.engine import keeping
from llama_runtime.engine.context import Context
from llama_runtime.engine.keeping import keep, restore
from llama_runtime.engine.kept_file import FILE_NAME
from tests.runtime.conftest import EngineFactory
from tests.runtime.engine.driver import Drive, Driver, both_layouts, prompt
from tests.runtime.engine.generating import answer, tokens_of


@pytest.fixture
def drive(drive: Drive, tmp_path: Path) -> Drive:
    """Its drivers keep what they have in one folder."""

    def make(context_class: type[Context] = Context, **settings: Any) -> Driver:
        return drive(context_class, **{"kv_keep_directory": tmp_path / "kept", **settings})

    return make


def with_traffic(drive: Drive, **settings: Any) -> Driver:
    """Finished conversations, some with a common beginning, and holes between them."""
    driver = drive(kv_max_sequences=6, **settings)
    stem = prompt(0, 80)
    driver.submit(prompt(9, 150), 3, cache_prompt=False)
    for seed in range(1, 5):
        driver.submit([*(stem if seed % 2 else []), *prompt(seed, 20 * seed)], 10)
    driver.run()
    return driver


@both_layouts
def test_what_was_cached_is_cached_again(drive: Drive, layout: str) -> None:
    old = with_traffic(drive, kv_layout=layout)
    kept = keep(old.scheduler.kv, old.settings)
    assert kept is not None
    assert kept.sequences == 4
    new = drive(kv_max_sequences=6, kv_layout=layout)
    kv = new.scheduler.kv
    restored = restore(kv, new.settings)
    assert restored is not None
    assert (restored.sequences, restored.tokens) == (kept.sequences, kept.tokens)
    assert [one.id for one in kv.cached] == [one.id for one in old.scheduler.kv.cached]
    assert kv.account.used == kv.account.span == old.scheduler.kv.account.used
    new.check()
    again = [*prompt(0, 80), *prompt(3, 60), *prompt(7, 5)]
    expected, hit = old.submit(again, 12), new.submit(again, 12)
    old.run()
    new.run()
    assert hit.cached_tokens == expected.cached_tokens > 100
    if layout == "Partitioned":
        assert new.tokens(hit) == old.tokens(expected)
    for seed in range(20, 30):
        new.submit(prompt(seed, 40), 5)
        new.scheduler.step()
        new.check()
    new.run()
    new.check()


def test_the_least_recently_used_are_left_out(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = with_traffic(drive)
    kv = old.scheduler.kv
    order = [one.id for one in kv.cached]
    monkeypatch.setattr(keeping, "MOST_BYTES", kv.context.size_of_all() - 1)
    kept = keep(kv, old.settings)
    assert kept is not None
    assert 0 < kept.sequences < 4
    new = drive(kv_max_sequences=6)
    restore(new.scheduler.kv, new.settings)
    assert [one.id for one in new.scheduler.kv.cached] == order[-kept.sequences :]
    new.check()


def test_nothing_fits(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "MOST_BYTES", 10)
    old = with_traffic(drive)
    kept = keep(old.scheduler.kv, old.settings)
    assert kept is not None
    assert kept.sequences == 0
    assert not list((old.settings.kv_keep_directory or Path()).iterdir())


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"kv_layout": "Unified"}, "layout"),
        ({"kv_type_k": "f32"}, "typeK"),
        ({"kv_max_sequences": 5}, "maxSequences"),
        ({"kv_context_per_sequence": 512}, "contextPerSequence"),
    ],
)
def test_another_context_discards_it(drive: Drive, changes: dict[str, Any], named: str) -> None:
    old = with_traffic(drive)
    keep(old.scheduler.kv, old.settings)
    new = drive(**{"kv_max_sequences": 6, **changes})
    restored = restore(new.scheduler.kv, new.settings)
    assert restored is not None
    assert restored.sequences == 0
    assert "discarded: other" in restored.message
    assert named in restored.message
    new.check()


def test_a_state_that_llama_cpp_refuses_leaves_an_empty_cache(drive: Drive) -> None:
    class Refusing(Context):
        def restore_all(self, state: Any) -> bool:
            super().restore_all(state)
            return False

    old = with_traffic(drive)
    keep(old.scheduler.kv, old.settings)
    new = drive(Refusing, kv_max_sequences=6)
    restored = restore(new.scheduler.kv, new.settings)
    assert restored is not None
    assert "discarded" in restored.message
    new.check()
    request = new.submit(prompt(1, 30), 5)
    new.run()
    assert len(new.tokens(request)) == 5


def test_a_damaged_file_leaves_an_empty_cache(drive: Drive, tmp_path: Path) -> None:
    old = with_traffic(drive)
    keep(old.scheduler.kv, old.settings)
    path = tmp_path / "kept" / FILE_NAME
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)
    new = drive(kv_max_sequences=6)
    restored = restore(new.scheduler.kv, new.settings)
    assert restored is not None
    assert "checksum" in restored.message
    new.check()


def test_it_can_be_turned_off_and_needs_a_directory(drive: Drive, tmp_path: Path) -> None:
    off = with_traffic(drive, kv_keep_over_restart=False)
    assert keep(off.scheduler.kv, off.settings) is None
    assert restore(off.scheduler.kv, off.settings) is None
    (tmp_path / "file").touch()
    unusable = with_traffic(drive, kv_keep_directory=tmp_path / "file" / "kept")
    kept = keep(unusable.scheduler.kv, unusable.settings)
    assert kept is not None
    assert "Nothing is kept" in kept.message
    assert restore(unusable.scheduler.kv, unusable.settings) is not None


async def test_a_restarted_engine_computes_a_known_prompt_no_second_time(
    engine: EngineFactory, tmp_path: Path
) -> None:
    first = engine(kv_keep_directory=tmp_path)
    prompt_tokens = tokens_of(first, "The sea is large and the moon is far away. " * 30)
    cold = await answer(first, prompt_tokens, 8)
    assert first.close(120)
    second = engine(kv_keep_directory=tmp_path)
    status: Any = second.status()["kv"]
    assert status["restored"]["sequences"] == 1
    assert status["restored"]["tokens"] == len(prompt_tokens) + 8 - 1
    warm = await answer(second, prompt_tokens, 8)
    assert warm.tokens == cold.tokens
    assert cold.finished.timings.cached_tokens == 0
    assert warm.finished.timings.cached_tokens == len(prompt_tokens) - 1
