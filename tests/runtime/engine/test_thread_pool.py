from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from llama_runtime.engine import thread_pool
from llama_runtime.engine.batch import Row
from llama_runtime.engine.context import DECODED, Context
from llama_runtime.engine.model import LoadedModel, load_model
from llama_runtime.engine.thread_pool import ThreadPool
from tests.runtime.engine.driver import tiny_settings


@pytest.fixture
def model(tiny_model_path: Path) -> LoadedModel:
    return load_model(tiny_settings(tiny_model_path), lambda progress: None)


def threads_of_this_process() -> set[int]:
    return {int(entry.name) for entry in Path("/proc/self/task").iterdir()}


def logits(model: LoadedModel, pool: ThreadPool) -> list[float]:
    """Of the last of three decodes; and that they start no thread that stays."""
    context = Context(model, tiny_settings(model.path), pool)
    before = threads_of_this_process()
    for position in range(3):
        row = Row(0, position, np.array([position], np.int32), 1)
        assert context.decode([row])[0] == DECODED
    found: list[float] = context.logits(1)[0].tolist()
    assert threads_of_this_process() == before
    context.close()
    return found


def test_the_threads_stay_until_the_pool_is_closed(model: LoadedModel) -> None:
    before = threads_of_this_process()
    pool = ThreadPool(3)
    started = threads_of_this_process() - before
    assert len(started) == 2
    assert all(os.sched_getaffinity(one) == os.sched_getaffinity(0) for one in started)
    assert logits(model, pool) == logits(model, pool)
    assert started <= threads_of_this_process()
    pool.close()
    pool.close()
    assert not started & threads_of_this_process()
    model.close()


def test_a_libllama_without_pools_is_said_and_computes_all_the_same(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def missing() -> None:
        raise AttributeError("undefined symbol: llama_attach_threadpool")

    expected = logits(model, ThreadPool(1))
    monkeypatch.setattr(thread_pool, "_functions", missing)
    pool = ThreadPool(2)
    assert "llama_attach_threadpool" in caplog.text
    assert logits(model, pool) == pytest.approx(expected, rel=1e-5)
    pool.close()
    model.close()
