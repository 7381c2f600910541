from __future__ import annotations

from prometheus_client import generate_latest

from llama_operator.metrics import REGISTRY, reference


def test_the_reference_lists_every_metric() -> None:
    exposed = {
        line.split()[2]
        for line in generate_latest(REGISTRY).decode().splitlines()
        if line.startswith("# TYPE ") and "_created" not in line
    }

    assert {row.name for row in reference()} == exposed
    for row in reference():
        assert row.name.startswith("llama_operator_")
        assert row.help.endswith(".")
