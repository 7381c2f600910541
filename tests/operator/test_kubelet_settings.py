"""What a kubelet lacks, from what it gave to a Guaranteed pod of two CPUs."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from llama_operator.kubelet_settings import (
    CPU_MANAGER,
    MEMORY_MANAGER,
    TOPOLOGY_MANAGER,
    advice,
    missing_settings,
    parse_list,
)
from llama_operator.runtime_status import NumaReading
from tests.cluster_fixtures import REPOSITORY


def reading(verdict: str, cpus: str, nodes: list[int], mems: str, **more: Any) -> NumaReading:
    return NumaReading.model_validate(
        {"verdict": verdict, "cpus": cpus, "cpuNodes": nodes, "mems": mems, **more}
    )


def lines(numa: NumaReading) -> tuple[str, ...]:
    return tuple(line for missing in missing_settings(numa, 2) for line in missing.lines)


@pytest.mark.parametrize(
    ("numa", "expected"),
    [
        (
            reading("CpusSpanNodes", "0-7", [0, 1], "0-1"),
            CPU_MANAGER + TOPOLOGY_MANAGER + MEMORY_MANAGER,
        ),
        (reading("CpusSpanNodes", "0-7", [0, 1], "1"), CPU_MANAGER + TOPOLOGY_MANAGER),
        (reading("CpusSpanNodes", "3-4", [0, 1], "0"), TOPOLOGY_MANAGER),
        (reading("CpusSpanNodes", "3-4", [0, 1], "0-1"), TOPOLOGY_MANAGER + MEMORY_MANAGER),
        (reading("MemsSpanNodes", "4-5", [1], "0-1"), MEMORY_MANAGER),
        (reading("GpuRemote", "4-5", [1], "1", gpuNodes=[0]), TOPOLOGY_MANAGER),
        (reading("GpuRemote", "4-5", [1], "1", gpuNodes=[1, None, 0]), TOPOLOGY_MANAGER),
        (reading("MemoryRemote", "4-5", [1], "0"), TOPOLOGY_MANAGER),
        (reading("MemoryRemote", "4-5", [1], "1", localRatio=0.2), ()),
        (reading("Aligned", "0-7", [0, 1], "0-1"), ()),
        (reading("SingleNode", "0-7", [0], "0"), ()),
        (reading("Unknown", "0-7", [0, 1], "0-1"), ()),
        (NumaReading(), ()),
    ],
)
def test_the_missing_settings_are_named(numa: NumaReading, expected: tuple[str, ...]) -> None:
    assert lines(numa) == expected


def test_the_advice_has_the_node_the_measurement_and_the_lines_to_add() -> None:
    text = advice("numa-node", reading("CpusSpanNodes", "0-7", [0, 1], "0-1"), 2)

    assert text.startswith("The kubelet of node numa-node does not align:")
    assert "2 CPUs were asked for and 8 given" in text
    assert "\ncpuManagerPolicy: static\n" in text
    assert "\nmemoryManagerPolicy: Static\n" in text


def test_memory_that_another_process_placed_is_not_the_kubelets_doing() -> None:
    assert advice("numa-node", reading("MemoryRemote", "4-5", [1], "1"), 2) == ""


def test_the_lines_are_those_of_the_file_that_the_tests_run() -> None:
    ours = yaml.safe_load("\n".join(CPU_MANAGER + TOPOLOGY_MANAGER + MEMORY_MANAGER))
    run = yaml.safe_load((REPOSITORY / "tests/cluster/kubelet-numa.yaml").read_text())

    assert {name: run[name] for name in ours if name != "reservedMemory"} == {
        name: value for name, value in ours.items() if name != "reservedMemory"
    }
    assert [item["numaNode"] for item in run["reservedMemory"]] == [
        item["numaNode"] for item in ours["reservedMemory"]
    ]


@given(st.sets(st.integers(0, 300), min_size=1))
def test_lists_are_read_as_the_kernel_writes_them(numbers: set[int]) -> None:
    assert parse_list(",".join(map(str, sorted(numbers)))) == numbers
    assert parse_list(f"{min(numbers)}-{max(numbers)}") == set(
        range(min(numbers), max(numbers) + 1)
    )


@given(st.text())
def test_no_list_is_ever_an_error(text: str) -> None:
    parse_list(text)
