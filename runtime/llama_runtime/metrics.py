"""Counting, and showing the rows of metric_table.py in Prometheus's text format."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from llama_runtime.generation import Timings
from llama_runtime.metric_table import ROWS
from llama_runtime.status import Status


class RequestMetrics:
    """Counts what happens between two scrapes; the API's Observer."""

    def __init__(self, registry: CollectorRegistry) -> None:
        rows = {row.name: row for row in ROWS}

        def arguments(name: str) -> tuple[str, str, tuple[str, ...]]:
            # prometheus-client adds _total to counters itself
            return name.removesuffix("_total"), rows[name].help, rows[name].labels

        def histogram(name: str) -> Histogram:
            return Histogram(*arguments(name), registry=registry, buckets=rows[name].buckets)

        self._in_flight = Gauge(*arguments("llama_runtime_http_requests_active"), registry=registry)
        self._requests = Counter(*arguments("llama_runtime_http_requests_total"), registry=registry)
        self._durations = histogram("llama_runtime_http_request_duration_seconds")
        self._queue = histogram("llama_runtime_queue_seconds")
        self._first_token = histogram("llama_runtime_time_to_first_token_seconds")
        self._per_token = histogram("llama_runtime_time_per_token_seconds")
        self.in_flight = 0
        self.last_arrival: float | None = None

    def request_started(self) -> None:
        self.in_flight += 1
        self.last_arrival = time.monotonic()
        self._in_flight.inc()

    def request_ended(self, path: str, method: str, status: int, seconds: float) -> None:
        self.in_flight -= 1
        self._in_flight.dec()
        self._requests.labels(path, method, str(status)).inc()
        self._durations.labels(path).observe(seconds)

    def generated(self, timings: Timings) -> None:
        self._queue.observe(timings.queue_seconds)
        self._first_token.observe(timings.queue_seconds + timings.prompt_seconds)
        if timings.predicted_tokens > 1:
            self._per_token.observe(timings.predicted_seconds / timings.predicted_tokens)


class StatusCollector(Collector):
    """The rows that are read from the status document."""

    def __init__(self, status: Callable[[], Status]) -> None:
        self._status = status

    def collect(self) -> Iterable[Metric]:
        status = self._status()
        for row in ROWS:
            if row.read is None:
                continue
            family = (GaugeMetricFamily if row.kind == "gauge" else CounterMetricFamily)(
                row.name, row.help, labels=row.labels
            )
            for labels, value in row.read(status):
                family.add_metric(labels, value)
            if family.samples:
                yield family


def exposition(registry: CollectorRegistry) -> bytes:
    """Prometheus's text format."""
    return generate_latest(registry)
