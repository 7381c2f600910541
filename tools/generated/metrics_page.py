"""docs/metrics.md: every metric of the operator and of the runtime."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from generated.markdown import code, table
from llama_operator import metrics as operator_metrics
from llama_runtime import metric_table as runtime_metrics

HEAD = """<!-- Written by tools/generate.py from the programs' own metrics. -->

# Metrics

Prometheus reads both as text from `/metrics`: the operator's on its metrics Service, a
pod's on port 8081 (`management`). The chart makes a ServiceMonitor and a PodMonitor when
`metrics.serviceMonitor.enabled` and `metrics.podMonitor.enabled` are true.
"""


def page() -> str:
    """The whole page."""
    operator = (
        (metric.name, metric.type, metric.labels, metric.help)
        for metric in operator_metrics.reference()
    )
    runtime = ((row.name, row.kind, row.labels, row.help) for row in runtime_metrics.ROWS)
    return f"{HEAD}\n## Operator\n\n{_table(operator)}\n## Runtime\n\n{_table(runtime)}"


def _table(metrics: Iterable[tuple[str, str, Sequence[str], str]]) -> str:
    rows = (
        (code(name), kind, ", ".join(map(code, labels)), text)
        for name, kind, labels, text in metrics
    )
    return table(("metric", "type", "labels", "what it is"), rows)
