"""The comparison with measurements that are known, and the machine at hand."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from llama_runtime.numa.topology import Topology, read_topology

program = importlib.import_module("tests.bench.numa.__main__")
TWO = Topology({0: frozenset({0, 1}), 1: frozenset({2, 3}), 2: frozenset()}, {})


def test_remote_memory_is_compared_with_the_same_cpus_own() -> None:
    asked = []

    def measure(placement: Any) -> Mapping[str, Any]:
        asked.append(placement)
        speed = 10.0 if placement.local else 7.0
        return {"tokensPerSecond": speed, "loadSeconds": 1 / speed}

    found = program.compare(TWO, measure, 3)

    assert [(item.name, round(item.value, 2), item.better) for item in found] == [
        ("decode, CPUs on node 0, memory on 1", 0.7, "higher"),
        ("load, CPUs on node 0, memory on 1", 1.43, "lower"),
        ("decode, CPUs on node 1, memory on 0", 0.7, "higher"),
        ("load, CPUs on node 1, memory on 0", 1.43, "lower"),
    ]
    assert asked[:4] == asked[4:8] == asked[8:], "the placements take turns"
    assert "local memory's 10.0 tokens/s" in found[0].note


@pytest.mark.parametrize(
    ("topology", "cpuinfo", "why"),
    [
        (Topology({}, {}), "", "shows 0 NUMA node"),
        (Topology({0: frozenset({0}), 1: frozenset()}, {}), "", "shows 1 NUMA node"),
        (TWO, "model name\t: QEMU TCG CPU version 2.5+", "emulated"),
        (TWO, "model name\t: Intel(R) Xeon(R)", None),
    ],
)
def test_where_it_cannot_be_measured_it_is_said(
    topology: Topology, cpuinfo: str, why: str | None
) -> None:
    said = program.unmeasurable(topology, cpuinfo)
    assert (said is None) if why is None else why in said


def test_pages_elsewhere_are_no_measurement() -> None:
    placement = program.Placement(0, 1)
    assert program.placed({"0": 25.0, "1": 75.0}, placement) == 0.75
    assert program.placed({}, placement) == 0.0


def test_on_a_machine_with_one_node_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if program.unmeasurable(read_topology(), Path("/proc/cpuinfo").read_text()) is None:
        pytest.skip("this machine has two nodes: make bench-numa measures here")
    monkeypatch.setattr(program, "RESULT", tmp_path / "numa.json")
    monkeypatch.setattr(sys, "argv", ["bench"])
    program.main()
    assert "Nothing was measured" in capsys.readouterr().out
    assert not (tmp_path / "numa.json").exists()
