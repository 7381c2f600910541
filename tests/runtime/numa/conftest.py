"""A two-node machine as a tree of files, and NVML as a real shared library."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import llama_runtime

Machine = Callable[..., Path]

# Property tests say nothing about time: the machine may be busy.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def run_python(code: str, **environment: str) -> str:
    """In a process of its own: what is bound stays bound. Returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={
            **os.environ,
            "PYTHONPATH": str(Path(llama_runtime.__path__[0]).parent),
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Writes the part of /sys and /proc that the runtime reads; returns its root."""

    def write(
        cpus: dict[int, str] | None = None,
        free_kib: dict[int, int] | None = None,
        pci: dict[str, str] | None = None,
        status: str | None = None,
        files: dict[str, str] | None = None,
    ) -> Path:
        nodes = {0: "0-1", 1: "2-3"} if cpus is None else cpus
        tree = {f"sys/devices/system/node/node{node}/cpulist": f"{nodes[node]}\n" for node in nodes}
        for node, free in (free_kib or {}).items():
            tree[f"sys/devices/system/node/node{node}/meminfo"] = (
                f"Node {node} MemTotal:       99999 kB\nNode {node} MemFree:        {free} kB\n"
            )
        for bus_id, node_text in (pci or {}).items():
            tree[f"sys/bus/pci/devices/{bus_id}/numa_node"] = f"{node_text}\n"
        if status is not None:
            tree["proc/self/status"] = status
        for name, text in {**tree, **(files or {})}.items():
            path = tmp_path / "root" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path / "root"

    return write


@pytest.fixture(scope="session")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that answers as FAKE_NVML_* in the environment say."""
    return build_nvml(tmp_path_factory.mktemp("nvml"))


def build_nvml(folder: Path) -> Path:
    compiler = shutil.which("cc")
    assert compiler, "no C compiler: install gcc to test against NVML's C API"
    library = folder / "libnvidia-ml.so.1"
    source = Path(__file__).with_name("fake_nvml.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-Wall", "-o", library, source], check=True)
    return library
