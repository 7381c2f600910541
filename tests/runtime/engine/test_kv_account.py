"""The account against llama.cpp's own: its debug line and its positions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llama_runtime.engine.backend import LogLine, collected_log
from llama_runtime.engine.batch import Row
from llama_runtime.engine.context import DECODED, NO_SLOT, Context
from llama_runtime.engine.kv_account import KVAccount
from llama_runtime.engine.model import LoadedModel, load_model
from llama_runtime.engine.thread_pool import ThreadPool
from llama_runtime.settings import Settings
from tests.runtime.engine.tiny_model import VOCABULARY_SIZE, write_sliding_window_model

SEQUENCES = 5
CELLS_PER_SEQUENCE = 256
BATCH_SIZE = 200
MICRO_BATCH_SIZE = 24

WINDOW = 40
"""Tokens that the sliding-window model looks back; its second cache is not in the account."""

Layout = Literal["Partitioned", "Unified"]

_DEBUG_LINE = re.compile(
    r"stream\[(\d+)\], n = +(\d+), used = +(\d+), head = +(\d+), size = +\d+, n_swa = +0$"
)


def make_settings(path: Path, layout: Layout) -> Settings:
    return Settings(
        model_path=path,
        kv_layout=layout,
        kv_max_sequences=SEQUENCES,
        kv_context_per_sequence=CELLS_PER_SEQUENCE,
        kv_total_context=512 if layout == "Unified" else None,
        engine_batch_size=BATCH_SIZE,
        engine_micro_batch_size=MICRO_BATCH_SIZE,
        engine_threads=1,
    )


@pytest.fixture(autouse=True, scope="module")
def _debug_lines() -> Iterator[None]:
    """llama.cpp reads this when a context is created."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LLAMA_KV_CACHE_DEBUG", "1")
        yield


@pytest.fixture(scope="module")
def model(tiny_model_path: Path) -> Iterator[LoadedModel]:
    loaded = load_model(make_settings(tiny_model_path, "Unified"), lambda progress: None)
    yield loaded
    loaded.close()


@pytest.fixture(scope="module", params=["every position", "sliding window"])
def any_model(
    request: pytest.FixtureRequest, model: LoadedModel, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LoadedModel]:
    if request.param == "every position":
        yield model
        return
    path = tmp_path_factory.mktemp("model") / "window.gguf"
    write_sliding_window_model(path, WINDOW)
    loaded = load_model(make_settings(path, "Unified"), lambda progress: None)
    assert loaded.sliding_window == WINDOW
    yield loaded
    loaded.close()


class Pair:
    """A context and the account of it, given the same orders and compared at each decode."""

    def __init__(self, model: LoadedModel, layout: Layout) -> None:
        self.window = model.sliding_window
        self.context = Context(model, make_settings(model.path, layout), ThreadPool(1))
        self.account = KVAccount(
            cells=self.context.cells,
            max_sequences=SEQUENCES,
            unified=self.context.unified,
            micro_batch_size=self.context.micro_batch_size,
        )

    def room(self, sequence: int) -> int:
        in_ring = self.account.free if self.context.unified else CELLS_PER_SEQUENCE
        return min(in_ring, CELLS_PER_SEQUENCE - self.account.length(sequence))

    def decode(self, wanted: dict[int, int]) -> None:
        counts: list[tuple[int, int]] = []
        left = min(BATCH_SIZE, self.account.free)
        for sequence, count in sorted(wanted.items()):
            count = min(count, left, self.room(sequence))
            if count:
                counts.append((sequence, count))
                left -= count
        if not counts:
            return
        before = {
            sequence if not self.context.unified else 0: self.account.ring_state(sequence)
            for sequence, _ in counts
        }
        with collected_log() as log:
            result, _ = self.context.decode(
                [
                    Row(
                        sequence,
                        self.account.length(sequence),
                        np.arange(count, dtype=np.int32) % VOCABULARY_SIZE,
                        1,
                    )
                    for sequence, count in counts
                ]
            )
        assert result == DECODED
        assert first_states(log) == before
        self.account.append(counts)
        self.compare_positions()

    def restore(self, source: int, target: int) -> None:
        """What was saved of one sequence replaces another one, or itself."""
        length = self.account.length(source)
        if not length or self.context.has_pending_copies:
            return
        data = self.context.save(source)
        self.cut(target, 0)
        if length <= self.room(target):
            assert self.context.restore(target, data)
            self.account.restore(target, length)
        self.compare_positions()

    def copy(self, source: int, target: int, keep: int) -> None:
        length = self.account.length(source)
        keep = min(keep, length)
        if source != target and length and self.holds_window_before(source, keep):
            self.context.copy(source, target, keep)
            self.account.copy(source, target, keep)
            self.compare_positions()

    def holds_window_before(self, sequence: int, keep: int) -> bool:
        """Otherwise nothing can go on at ``keep``, and it is no use to keep that much."""
        lowest, _ = self.context.position_range(sequence)
        return not self.window or 0 <= lowest <= max(keep - self.window + 1, 0)

    def cut(self, sequence: int, keep: int) -> None:
        if not self.holds_window_before(sequence, keep):
            keep = 0
        self.context.cut(sequence, keep)
        self.account.cut(sequence, keep)
        self.compare_positions()

    def pack(self) -> None:
        if self.context.has_pending_copies:
            return
        state = np.empty(self.context.size_of_all(), np.uint8)
        assert self.context.save_all(state)
        assert self.context.restore_all(state)
        self.account.pack()
        assert self.account.used == self.account.span
        self.compare_positions()

    def clear(self) -> None:
        self.context.clear()
        self.account.clear()
        self.compare_positions()

    def compare_positions(self) -> None:
        for sequence in range(SEQUENCES):
            length = self.account.length(sequence)
            lowest, highest = self.context.position_range(sequence)
            assert highest == length - 1
            if self.window and length:
                assert 0 <= lowest <= max(length - self.window + 1, 0)
            else:
                assert lowest == (0 if length else -1)


def first_states(log: list[LogLine]) -> dict[int, tuple[int, int, int]]:
    """What llama.cpp's debug lines say of each ring before the batch: n, used and head."""
    states: dict[int, tuple[int, int, int]] = {}
    for line in log:
        found = _DEBUG_LINE.search(line.text)
        if found:
            ring, span, used, head = map(int, found.groups())
            states.setdefault(ring, (span, used, head))
    return states


sequences = st.integers(0, SEQUENCES - 1)
orders = st.one_of(
    st.tuples(st.just("decode"), st.dictionaries(sequences, st.integers(1, 70), min_size=1)),
    st.tuples(st.just("step"), st.sets(sequences, min_size=1)),
    st.tuples(st.just("copy"), st.tuples(sequences, sequences, st.integers(1, 200))),
    st.tuples(st.just("restore"), st.tuples(sequences, sequences)),
    st.tuples(st.just("cut"), st.tuples(sequences, st.integers(0, 100))),
    st.tuples(st.just("remove"), sequences),
    st.tuples(st.just("pack"), st.none()),
    st.tuples(st.just("clear"), st.none()),
)


@pytest.mark.parametrize("layout", ["Partitioned", "Unified"])
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(traffic=st.lists(orders, min_size=4, max_size=40))
def test_random_traffic_leaves_both_accounts_equal(
    layout: Layout, any_model: LoadedModel, traffic: list[tuple[str, object]]
) -> None:
    pair = Pair(any_model, layout)
    try:
        for order, argument in traffic:
            match order, argument:
                case "decode", dict():
                    pair.decode(argument)
                case "step", set():
                    pair.decode(dict.fromkeys(argument, 1))
                case "copy", (int(source), int(target), int(keep)):
                    pair.copy(source, target, keep)
                case "restore", (int(source), int(target)):
                    pair.restore(source, target)
                case "cut", (int(sequence), int(keep)):
                    if pair.account.length(sequence) > keep:
                        pair.cut(sequence, keep)
                case "remove", int(sequence):
                    pair.cut(sequence, 0)
                case "pack", None:
                    pair.pack()
                case "clear", None:
                    pair.clear()
        # The debug line tells the state before a batch: one more shows the last one.
        pair.decode(dict.fromkeys(range(SEQUENCES), 1))
    finally:
        pair.context.close()


def test_a_cache_that_is_full_for_the_account_is_full_for_llama_cpp(model: LoadedModel) -> None:
    pair = Pair(model, "Unified")
    pair.decode({0: 200})
    pair.decode({1: 200})
    pair.decode({2: 112})
    assert pair.account.free == 0
    result, _ = pair.context.decode([Row(3, 0, np.zeros(1, np.int32), 1)])
    assert result == NO_SLOT
    with pytest.raises(ValueError, match="only 0 are free"):
        pair.account.append([(3, 1)])
    pair.context.close()


def test_shared_cells_are_counted_once(model: LoadedModel) -> None:
    pair = Pair(model, "Unified")
    pair.decode({0: 100})
    pair.copy(0, 1, 60)
    pair.copy(0, 2, 60)
    pair.decode({1: 5, 2: 5})
    assert pair.account.used == 110
    assert pair.account.distinct([1, 2]) == 70
    assert [pair.account.length(sequence) for sequence in range(3)] == [100, 65, 65]
    pair.cut(0, 0)
    assert pair.account.used == 70
    assert pair.account.span == 110
    pair.context.close()


def test_copies_between_streams_are_counted_in_each(model: LoadedModel) -> None:
    pair = Pair(model, "Partitioned")
    pair.decode({0: 100})
    pair.copy(0, 3, 60)
    assert pair.account.used == pair.account.span == 160
    assert pair.account.distinct([0, 3]) == 160
    pair.context.close()
