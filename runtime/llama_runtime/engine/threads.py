"""How many threads llama.cpp may use: it sees the machine's cores, not the pod's quota."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

PROCESS_CGROUP = Path("/proc/self/cgroup")
CGROUP_ROOT = Path("/sys/fs/cgroup")


def available_cpus(process_cgroup: Path = PROCESS_CGROUP, cgroup_root: Path = CGROUP_ROOT) -> int:
    """CPUs of the affinity mask within the cgroup's CPU quota (rounded down), at least 1."""
    cpus = len(os.sched_getaffinity(0))
    quota = cpu_quota(process_cgroup, cgroup_root)
    if quota is not None:
        cpus = min(cpus, int(quota))
    return max(cpus, 1)


def cpu_quota(
    process_cgroup: Path = PROCESS_CGROUP, cgroup_root: Path = CGROUP_ROOT
) -> float | None:
    """The tightest quota of the process's cgroup and those above it, in CPUs; None is no limit."""
    quotas = [
        quota
        for folder in _cgroup_folders(process_cgroup, cgroup_root)
        if (quota := _quota_v2(folder) or _quota_v1(folder)) is not None
    ]
    return min(quotas, default=None)


def _cgroup_folders(process_cgroup: Path, cgroup_root: Path) -> Iterator[Path]:
    try:
        lines = process_cgroup.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            base = cgroup_root
        elif "cpu" in controllers.split(","):
            base = cgroup_root / "cpu"
        else:
            continue
        folder = base / path.lstrip("/")
        yield folder
        # Above the root of a cgroup namespace nothing is visible; the loop then ends at base.
        while folder != base:
            folder = folder.parent
            yield folder


def _quota_v2(folder: Path) -> float | None:
    try:
        quota, period = (folder / "cpu.max").read_text().split()
    except (OSError, ValueError):
        return None
    return None if quota == "max" else int(quota) / int(period)


def _quota_v1(folder: Path) -> float | None:
    try:
        quota = int((folder / "cpu.cfs_quota_us").read_text())
        period = int((folder / "cpu.cfs_period_us").read_text())
    except (OSError, ValueError):
        return None
    return quota / period if quota > 0 else None
