"""Cures on real llama.cpp: the account stays exact, greedy output goes on."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from llama_runtime.engine import cures as cures_module
from llama_runtime.engine.context import Context
from llama_runtime.generation import (
    CureRefused,
    EngineFailed,
    Finished,
    Generation,
    NotServing,
    Token,
)
from tests.runtime.conftest import EngineFactory
from tests.runtime.engine.driver import Drive, Driver, both_layouts, prompt
from tests.runtime.engine.generating import GREEDY, answer


class Recording(Context):
    """Keeps the latest logits. In Unified they depend on the place of the cells by rounding."""

    told: Any = None

    def logits(self, count: int) -> Any:
        rows = super().logits(count)
        self.told = rows.copy()
        return rows


def told(driver: Driver) -> Any:
    context = driver.scheduler.kv.context
    assert isinstance(context, Recording)
    return context.told


def fragmented(drive: Drive, context_class: type[Context] = Context) -> Driver:
    """Unified: a long sequence is gone, and one that runs lies behind its cells."""
    driver = drive(context_class, kv_layout="Unified", kv_context_per_sequence=1024)
    long = driver.submit(prompt(1, 700), 300)
    survivor = driver.submit(prompt(2, 20), 300)
    while len(driver.tokens(survivor)) < 40:
        driver.scheduler.step()
    long.cancel()
    driver.scheduler.step()
    assert driver.scheduler.kv.account.span > 700
    return driver


@both_layouts
def test_a_cure_at_any_step_changes_no_answer(drive: Drive, layout: str) -> None:
    """Prompts with common beginnings, finished and cancelled ones, and cures in between."""

    def answers(*, cured: bool) -> list[list[int]]:
        driver = drive(kv_layout=layout, kv_max_sequences=6, kv_context_per_sequence=512)
        choose, stem = random.Random(7), prompt(0, 80)
        requests = []
        for number in range(24):
            body = prompt(number + 1, choose.randint(1, 60))
            requests.append(driver.submit([*stem[: choose.choice([0, 40, 80])], *body], 25))
            gone = choose.choice(requests)
            if choose.random() < 0.2:
                gone.cancel()
            for _ in range(choose.randint(0, 6)):
                driver.scheduler.step()
                if cured and not driver.scheduler.cures.must_wait:
                    driver.scheduler.cures.compact("Request")
                    driver.check()
        driver.run()
        driver.check()
        return [driver.tokens(request) for request in requests]

    assert answers(cured=True) == answers(cured=False)


def test_compacting_packs_what_is_in_use_and_streams_go_on(drive: Drive) -> None:
    undisturbed = fragmented(drive, Recording)
    undisturbed.scheduler.step()
    driver = fragmented(drive, Recording)
    account = driver.scheduler.kv.account
    used = account.used
    cure = driver.scheduler.cures.compact("Request")
    assert (account.used, account.span) == (used, used)
    assert (cure.method, cure.cause) == ("Compact", "Request")
    assert cure.before.span > 700 > cure.after.span == cure.after.cells_used == used
    assert cure.before.bytes is not None
    assert cure.after.bytes is not None
    assert cure.after.bytes < cure.before.bytes
    assert cure.seconds > 0
    driver.check()
    driver.scheduler.step()
    assert told(driver) == pytest.approx(told(undisturbed), abs=1e-2)
    driver.run()
    driver.check()


def test_speeds_before_and_after_a_cure_are_of_the_same_depth(drive: Drive) -> None:
    driver = fragmented(drive)
    for _ in range(20):
        driver.scheduler.step()
    cures, speed = driver.scheduler.cures, driver.scheduler.speed
    cures.compact("Request")
    assert cures.last is not None
    assert cures.last.as_dict(speed.since_mark)["depth"] is None
    for _ in range(30):
        driver.scheduler.step()
    shown = cures.last.as_dict(speed.since_mark)
    assert isinstance(shown["depth"], int)
    assert shown["depth"] > 60
    for side in ("before", "after"):
        measured = shown[side]
        assert isinstance(measured, dict)
        assert measured["tokensPerSecond"] > 0


@both_layouts
def test_an_empty_cache_is_cleared(drive: Drive, layout: str) -> None:
    driver = drive(kv_layout=layout)
    driver.submit(prompt(1, 100), 8, cache_prompt=False)
    driver.run()
    assert driver.scheduler.cures.compact("Request").method == "Clear"
    again = driver.submit(prompt(2, 100), 8)
    driver.run()
    assert isinstance(driver.end(again), Finished)
    driver.check()


@both_layouts
def test_shared_prefixes_stay_shared(drive: Drive, layout: str) -> None:
    driver = drive(kv_layout=layout)
    stem = prompt(3, 100)
    for seed in range(3):
        driver.submit([*stem, *prompt(seed, 30)], 8)
        driver.run()
    kv = driver.scheduler.kv
    used = kv.account.used
    assert kv.compact()
    assert kv.account.used == kv.account.span == used
    late = driver.submit([*stem, *prompt(9, 10)], 8)
    driver.run()
    assert late.cached_tokens == 100
    driver.check()


def test_an_idle_wasteful_cache_is_compacted_by_itself(drive: Drive) -> None:
    driver = fragmented(drive)
    driver.run()
    kv, cures = driver.scheduler.kv, driver.scheduler.cures
    cures.compact_if_wasteful()
    assert cures.last is not None
    assert cures.last.cause == "Idle"
    assert kv.account.span == kv.account.used
    cures.compact_if_wasteful()
    assert cures.counts["Compact"] == 1


def test_an_idle_cache_that_is_large_is_left_alone(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cures_module, "MOST_BYTES_WHEN_IDLE", 100)
    driver = fragmented(drive)
    driver.scheduler.cures.compact_if_wasteful()
    assert driver.scheduler.cures.last is None


def test_a_cure_without_memory_for_the_copy_is_refused(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = fragmented(drive)
    monkeypatch.setattr(cures_module, "available_host_memory", lambda: 1000)
    with pytest.raises(CureRefused, match="ask for a Restart"):
        driver.scheduler.cures.compact("Request")
    driver.scheduler.cures.compact_if_wasteful()
    assert driver.scheduler.cures.last is None
    driver.run()
    driver.check()


def test_a_state_that_is_not_taken_back_costs_the_cache_not_the_streams(drive: Drive) -> None:
    class Forgetful(Recording):
        def restore_all(self, state: Any) -> bool:
            super().clear()
            return False

    undisturbed = fragmented(drive, Recording)
    undisturbed.scheduler.step()
    driver = fragmented(drive, Forgetful)
    driver.scheduler.cures.compact("Request")
    assert driver.scheduler.counters.context_rebuilds == 1
    driver.check()
    survivor = driver.scheduler.running[0]
    length = survivor.length
    while survivor.length == length:
        driver.scheduler.step()
    assert told(driver) == pytest.approx(told(undisturbed), abs=1e-2)
    driver.run()
    driver.check()


@both_layouts
def test_a_failed_decode_rebuilds_the_context_and_shows_it(drive: Drive, layout: str) -> None:
    class Broken(Context):
        def decode(self, rows: Any) -> tuple[int, list[int]]:
            return (-3, []) if any(63 in row.tokens for row in rows) else super().decode(rows)

    driver = drive(Broken, kv_layout=layout)
    before = driver.submit(prompt(1, 50), 4)
    driver.run()
    bad = driver.submit([*prompt(2, 20), 63], 4)
    driver.run()
    assert isinstance(driver.end(before), Finished)
    assert isinstance(driver.end(bad), EngineFailed)
    cure = driver.scheduler.cures.last
    assert cure is not None
    assert (cure.method, cure.cause) == ("Rebuild", "DecodeFailed")
    assert cure.before.cells_used > cure.after.cells_used == 0
    driver.check()


async def test_running_streams_only_pause(engine: EngineFactory, tiny_model_path: Path) -> None:
    one = engine(
        model_path=tiny_model_path,
        kv_layout="Unified",
        kv_context_per_sequence=1024,
        engine_batch_size=64,
        engine_micro_batch_size=64,
    )
    long = one.submit(Generation(tuple(prompt(1, 700)), 300, GREEDY, ignore_eos=True))
    running = asyncio.ensure_future(answer(one, prompt(2, 20), 900, ignore_eos=True))
    assert isinstance(await anext(aiter(long)), Token)
    await long.aclose()
    cure: Any = await one.compact()
    assert (cure["method"], cure["cause"]) == ("Compact", "Request")
    assert len((await running).tokens) == 900
    status: Any = one.status()
    assert status["counters"]["cures"]["Compact"] >= 1
    assert status["kv"]["lastCure"]["before"]["cellsUsed"] > 0
    assert one.idle


async def test_an_idle_engine_compacts_by_itself(
    engine: EngineFactory, tiny_model_path: Path
) -> None:
    one = engine(
        model_path=tiny_model_path,
        kv_layout="Unified",
        kv_context_per_sequence=1024,
        engine_batch_size=64,
        engine_micro_batch_size=64,
    )
    status: Any = {"lastCure": None}
    while status["lastCure"] is None:  # the two need not meet at the first try
        long = one.submit(Generation(tuple(prompt(1, 900)), 1, GREEDY, cache_prompt=False))
        short = one.submit(Generation(tuple(prompt(2, 20)), 40, GREEDY, ignore_eos=True))
        assert [item async for item in long]
        assert len([item async for item in short]) == 41
        status = one.status()["kv"]
    assert status["lastCure"]["cause"] == "Idle"
    assert status["span"] == status["cellsUsed"]


async def test_a_compaction_of_an_engine_that_stops_ends_with_it(
    engine: EngineFactory, tiny_model_path: Path
) -> None:
    one = engine(model_path=tiny_model_path)
    assert (await one.compact())["method"] == "Clear"
    one.failed = "It is broken."
    with pytest.raises(NotServing, match="broken"):
        await one.compact()
    one.failed = None


@both_layouts
def test_decode_speed_is_that_of_steps_that_only_generate(drive: Drive, layout: str) -> None:
    driver = drive(kv_layout=layout)
    driver.submit(prompt(1, 100), 1)
    driver.run()
    assert driver.scheduler.speed.reading is None
    driver.submit(prompt(2, 20), 100, ignore_eos=True)
    driver.run()
    reading = driver.scheduler.speed.reading
    assert reading is not None
    assert reading.tokens_per_second > 0
    assert reading.baseline > 0
    assert 68 <= reading.depth <= 120
