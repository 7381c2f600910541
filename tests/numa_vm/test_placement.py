"""Where memory and threads really are, on a real two-node kernel (in_guest.SCENARIOS)."""

from __future__ import annotations

import os
import re
from typing import Any

import pytest

from llama_runtime.numa.verdict import LOCAL_RATIO

pytestmark = [pytest.mark.numa_vm, pytest.mark.timeout(3300)]

Measured = dict[str, Any]


def model_mib() -> float:
    return os.path.getsize(os.environ["LLAMA_TEST_MODEL"]) / 2**20


def test_a_bound_runtime_has_its_pages_and_threads_on_its_node(measured: Measured) -> None:
    numa = measured["bound"]["numa"]
    assert numa["verdict"] == "Aligned", numa["message"]
    assert (numa["cpus"], numa["cpuNodes"], numa["mems"]) == ("2-3", [1], "1")
    assert numa["localRatio"] >= LOCAL_RATIO
    assert numa["pagesMiB"]["1"] > model_mib()
    masks = measured["bound"]["threads"]
    assert len(masks) >= 3
    assert all(mask == [2, 3] for mask in masks)


def test_without_mmap_a_page_cache_on_the_other_node_does_not_matter(measured: Measured) -> None:
    assert measured["bound"]["numa"]["pagesMiB"].get("0", 0.0) < 0.05 * model_mib()


def test_with_mmap_a_page_cache_on_the_other_node_ends_a_required_runtime(
    measured: Measured,
) -> None:
    ended = measured["mmap-cached-there"]
    assert ended["exit"] == 78
    assert "threads" not in ended, "it served"
    assert ended["termination"]["reason"] == "NUMANotAligned"
    assert ended["termination"]["numa"]["verdict"] == "MemoryRemote"
    on_node_0 = re.search(r"MiB of pages: ([\d.]+) on 0", ended["termination"]["message"])
    assert on_node_0, ended
    assert float(on_node_0[1]) > 0.9 * model_mib()


def test_with_mmap_a_page_cache_on_the_own_node_is_aligned(measured: Measured) -> None:
    numa = measured["mmap-cached-here"]["numa"]
    assert numa["verdict"] == "Aligned", numa["message"]
    assert numa["pagesMiB"]["1"] > 0.9 * model_mib()


def test_a_runtime_that_spans_nodes_moves_to_its_gpu(measured: Measured) -> None:
    numa = measured["moves-to-gpu"]["numa"]
    assert numa["verdict"] == "CpusSpanNodes"
    assert (numa["boundCpus"], numa["memoryPolicy"]) == ("2-3", "Preferred")
    assert numa["pagesMiB"]["1"] > model_mib()
    # What Python allocated before it knew where to go stays where it was.
    assert numa["pagesMiB"].get("0", 0.0) < 0.5 * model_mib()
    assert all(mask == [2, 3] for mask in measured["moves-to-gpu"]["threads"])


def test_a_cpu_pod_moves_to_a_node_that_holds_its_limit(measured: Measured) -> None:
    numa = measured["moves-to-limit"]["numa"]
    assert numa["cpus"] == "0-3"
    assert numa["boundCpus"] in ("0-1", "2-3")


@pytest.mark.parametrize(
    ("scenario", "verdict", "gpu_nodes"),
    [
        ("unbound", "CpusSpanNodes", []),
        ("gpu-here", "Aligned", [1]),
        ("gpu-there", "GpuRemote", [0]),
        ("gpus-on-both", "GpuRemote", [0, 1]),
        ("gpu-unknown", "Unknown", [None]),
    ],
)
def test_verdicts_on_real_cpusets_and_pci_devices(
    measured: Measured, scenario: str, verdict: str, gpu_nodes: list[int | None]
) -> None:
    numa = measured[scenario]["numa"]
    assert numa["gpuNodes"] == gpu_nodes
    assert numa["verdict"] == verdict, numa["message"]


def test_memory_that_may_come_from_both_nodes_ends_a_required_runtime(measured: Measured) -> None:
    ended = measured["cpus-alone"]
    numa = ended["termination"]["numa"]
    assert (ended["exit"], numa["verdict"]) == (78, "MemsSpanNodes")
    assert (numa["cpuNodes"], numa["mems"]) == ([1], "0-1")


def test_the_bench_puts_the_memory_on_the_node_it_names(measured: Measured) -> None:
    pages = measured["bench-remote"]["pagesMiB"]
    assert pages["0"] > model_mib()
    assert pages["0"] >= LOCAL_RATIO * sum(pages.values())


def test_unbound_memory_may_come_from_both_nodes(measured: Measured) -> None:
    numa = measured["unbound"]["numa"]
    assert (numa["cpuNodes"], numa["mems"], numa["localRatio"]) == ([0, 1], "0-1", None)


def test_a_cpuset_that_changes_while_running_changes_the_verdict(measured: Measured) -> None:
    before, after = measured["cpuset-changes"]["numa"], measured["cpuset-changes"]["later"]
    assert (before["verdict"], before["cpus"]) == ("Aligned", "2-3")
    assert (after["verdict"], after["cpus"]) == ("MemoryRemote", "0-1")
    assert (after["changes"], after["previousVerdict"]) == (1, "Aligned")
    assert "It was Aligned until" in after["message"]
