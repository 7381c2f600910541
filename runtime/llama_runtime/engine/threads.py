"""How many threads llama.cpp may use: it sees the machine's cores, not the pod's quota."""

from __future__ import annotations

import os
from pathlib import Path

from llama_runtime.numa.limits import cpu_quota


def available_cpus(root: Path = Path("/")) -> int:
    """CPUs of the affinity mask within the container's CPU quota (rounded down), at least 1."""
    cpus = len(os.sched_getaffinity(0))
    quota = cpu_quota(root)
    if quota is not None:
        cpus = min(cpus, int(quota))
    return max(cpus, 1)
