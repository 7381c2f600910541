"""What the kubelet gave this container: CPUs, memory nodes, CPU quota."""

from __future__ import annotations

import re
from pathlib import Path

from llama_runtime.numa.topology import parse_list


def allowed_cpus(root: Path = Path("/")) -> frozenset[int]:
    """CPUs the main thread may run on: the cpuset, narrowed by any affinity mask."""
    return read_allowed("Cpus_allowed_list", root)


def allowed_mems(root: Path = Path("/")) -> frozenset[int]:
    """Nodes that memory may come from (the cpuset's mems). Empty when the kernel has no
    cpusets. A memory policy, ours or numactl's, does not show here."""
    return read_allowed("Mems_allowed_list", root)


def read_allowed(field: str, root: Path) -> frozenset[int]:
    try:
        status = (root / "proc/self/status").read_text()
    except OSError:
        return frozenset()
    found = re.search(rf"^{field}:\s*(\S*)$", status, re.MULTILINE)
    return parse_list(found[1]) if found else frozenset()


def cpu_quota(root: Path = Path("/")) -> float | None:
    """CPUs' worth of time the container may use (its CPU limit), None when unlimited.

    Reads ``cpu.max`` of cgroup v2, else ``cpu.cfs_*`` of v1, as seen inside the container.
    """
    groups = root / "sys/fs/cgroup"
    try:
        quota, period = (groups / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota = (groups / "cpu/cpu.cfs_quota_us").read_text().strip()
            period = (groups / "cpu/cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    if quota in ("max", "-1"):
        return None
    return int(quota) / int(period)
