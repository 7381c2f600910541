from __future__ import annotations

import os
from pathlib import Path

import pytest

from llama_runtime.numa.limits import allowed_cpus, allowed_mems, cpu_quota
from tests.runtime.numa.conftest import Machine

STATUS = """Name:\tpython
Cpus_allowed:\t30
Cpus_allowed_list:\t4-5
Mems_allowed:\t00000000,00000002
Mems_allowed_list:\t1
"""


def test_reads_what_the_container_was_given(machine: Machine) -> None:
    root = machine(status=STATUS)
    assert allowed_cpus(root) == {4, 5}
    assert allowed_mems(root) == {1}


def test_a_kernel_without_cpusets_gives_no_memory_nodes(machine: Machine) -> None:
    root = machine(status="Name:\tpython\nCpus_allowed_list:\t0\n")
    assert allowed_mems(root) == set()
    assert allowed_cpus(root) == {0}


def test_no_proc_is_unknown_not_an_error(tmp_path: Path) -> None:
    assert allowed_cpus(tmp_path) == set()


def test_the_kernel_and_python_agree_on_this_process() -> None:
    assert allowed_cpus() == os.sched_getaffinity(os.getpid())


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"cpu.max": "250000 100000\n"}, 2.5),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "800000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 8.0),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({}, None),
    ],
)
def test_quota(machine: Machine, files: dict[str, str], quota: float | None) -> None:
    root = machine(files={f"sys/fs/cgroup/{name}": text for name, text in files.items()})
    assert cpu_quota(root) == quota
