"""The metrics page: one table, Prometheus's rules, values from the status document."""

from __future__ import annotations

import re
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from llama_runtime.generation import Timings
from llama_runtime.metric_table import ROWS, metric_reference
from llama_runtime.metrics import RequestMetrics, StatusCollector, exposition
from llama_runtime.status import Status
from tests.runtime.api.fake_engine import FakeEngine

NUMA = {"verdict": "Aligned", "pagesMiB": {"0": 0.5, "1": 95.0}, "localRatio": 0.99, "changes": 1}


def document(engine: FakeEngine | None, state: str = "Serving") -> dict[str, Any]:
    return {
        "state": state,
        "model": {"alias": "chat", "sizeBytes": 7, "loadProgress": 0.5, "loadSeconds": None},
        "kv": None,
        "requests": None,
        "engine": None,
        "counters": None,
        "numa": NUMA if engine else None,
        **(engine.status() if engine else {}),
        "memory": {"rssBytes": 4096, "growth": 0.5, "vramBytes": 2048},
    }


def samples(status: Status) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    registry = CollectorRegistry()
    registry.register(StatusCollector(lambda: status))
    families = text_string_to_metric_families(exposition(registry).decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_names_follow_prometheus(row: Any) -> None:
    assert re.fullmatch(r"llama_runtime_[a-z0-9_]+", row.name)
    assert row.name.endswith("_total") == (row.kind == "counter")
    assert not re.search(r"_(ms|milliseconds|mib|kib|percent|count)(_total)?$", row.name)
    assert row.help.endswith(".")
    assert bool(row.buckets) == (row.kind == "histogram")


def test_the_reference_has_each_metric_once() -> None:
    rows = metric_reference()
    names = [row["name"] for row in rows]
    assert len(names) == len(set(names)) == len(ROWS)
    assert all(row.keys() == {"name", "type", "labels", "help"} for row in rows)


def test_every_metric_of_a_serving_engine_is_shown() -> None:
    status = document(FakeEngine())
    status["model"]["loadSeconds"] = 0.5
    shown = {name for name, _ in samples(status)}
    assert shown == {row.name for row in ROWS if row.read is not None}


def test_values_are_those_of_the_status() -> None:
    shown = samples(document(FakeEngine()))
    assert shown["llama_runtime_kv_cells_used", ()] == 12
    assert shown["llama_runtime_kv_span_ratio", ()] == 0.25
    assert shown["llama_runtime_kv_sequences", (("use", "cached"),)] == 1
    assert shown["llama_runtime_generations_total", (("outcome", "finished"),)] == 3
    assert shown["llama_runtime_generated_tokens_total", ()] == 20
    assert shown["llama_runtime_numa_memory_bytes", (("node", "1"),)] == 95 * 2**20
    assert shown["llama_runtime_numa_verdict", (("verdict", "Aligned"),)] == 1
    assert shown["llama_runtime_state", (("state", "Serving"),)] == 1
    assert shown["llama_runtime_state", (("state", "Failed"),)] == 0


def test_what_is_unknown_is_left_out() -> None:
    shown = {name for name, _ in samples(document(None, "Loading"))}
    assert "llama_runtime_model_load_ratio" in shown
    assert "llama_runtime_model_load_seconds" not in shown
    assert not {
        name for name in shown if name.startswith(("llama_runtime_kv", "llama_runtime_numa"))
    }


def test_generations_are_observed() -> None:
    registry = CollectorRegistry()
    metrics = RequestMetrics(registry)
    metrics.generated(Timings(0, 10, 4, 1.0, 0.5, 0.2))
    metrics.generated(Timings(0, 10, 1, 1.0, 0.5, 0.2))
    value = registry.get_sample_value
    assert value("llama_runtime_time_to_first_token_seconds_sum") == 3.0
    assert value("llama_runtime_queue_seconds_count") == 2
    assert value("llama_runtime_time_per_token_seconds_sum") == pytest.approx(0.05)
    assert value("llama_runtime_time_per_token_seconds_count") == 1


def test_request_metrics_are_rows_of_the_table() -> None:
    registry = CollectorRegistry()
    metrics = RequestMetrics(registry)
    metrics.request_started()
    assert metrics.in_flight == 1
    metrics.request_ended("/v1/models", "GET", 200, 0.1)
    assert metrics.in_flight == 0
    families = {
        (family.name + "_total" if family.type == "counter" else family.name, family.type)
        for family in registry.collect()
    }
    assert families == {(row.name, row.kind) for row in ROWS if row.read is None}
