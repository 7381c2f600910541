"""prepare() and observe() on a real process, with a tree of files for the machine."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.numa.conftest import Machine, run_python

CPUS = sorted(os.sched_getaffinity(0))


@pytest.fixture
def split(machine: Machine) -> Path:
    """This machine with its CPUs dealt out to two nodes and a GPU on the second."""
    assert len(CPUS) >= 2, "these tests narrow affinity: they need a machine with two CPUs"
    root = machine(cpus={0: str(CPUS[0]), 1: str(CPUS[1])}, pci={"0000:3b:00.0": "1"})
    (root / "proc").symlink_to("/proc")
    return root


def run(root: Path, policy: str, nvml: Path | None = None, code: str = "") -> list[Any]:
    script = f"""
import json, os, pathlib
from llama_runtime.numa import observe, prepare
root = pathlib.Path({str(root)!r})
binding = prepare({policy!r}, root)
{code}
report = observe({policy!r}, root)
print(json.dumps([sorted(os.sched_getaffinity(0)), report.as_dict(), report.aligned]))
"""
    environment = {"FAKE_NVML_DEVICES": "00000000:3B:00.0=-"}
    if nvml:
        environment["LD_LIBRARY_PATH"] = str(nvml.parent)
    answer: list[Any] = json.loads(run_python(script, **environment))
    return answer


def test_the_process_moves_to_the_node_of_its_gpu(split: Path, nvml: Path) -> None:
    mask, report, _ = run(split, "Preferred", nvml)
    assert mask == [CPUS[1]]
    assert report["boundCpus"] == str(CPUS[1])
    assert report["gpuNodes"] == [1]


def test_what_was_given_is_judged_not_what_was_narrowed(split: Path, nvml: Path) -> None:
    _, report, aligned = run(split, "Required", nvml)
    assert report["verdict"] == "CpusSpanNodes"
    assert report["cpuNodes"] == [0, 1]
    assert not aligned


def test_policy_none_touches_nothing_and_still_tells(split: Path, nvml: Path) -> None:
    mask, report, _ = run(split, "None", nvml)
    assert mask == CPUS
    assert (report["boundCpus"], report["memoryPolicy"]) == (None, None)
    assert report["verdict"] == "CpusSpanNodes"


def test_a_mask_changed_from_outside_is_reported(split: Path, nvml: Path) -> None:
    change = f"os.sched_setaffinity(0, {{{CPUS[0]}}})"
    _, report, _ = run(split, "Preferred", nvml, change)
    assert report["cpus"] == str(CPUS[0])
    assert report["boundCpus"] is None
    assert "changed" in report["message"]
    assert report["verdict"] == "GpuRemote"


def test_without_nvml_the_cpus_decide(split: Path) -> None:
    mask, report, _ = run(split, "Preferred")
    assert report["gpuNodes"] == []
    assert mask == CPUS


def test_observing_without_preparing_judges_what_is(split: Path) -> None:
    script = f"""
import pathlib
from llama_runtime.numa import observe
print(observe("None", pathlib.Path({str(split)!r})).verdict)
"""
    assert run_python(script).strip() == "CpusSpanNodes"
