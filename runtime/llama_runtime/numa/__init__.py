"""Bind this process to one NUMA node where it may, then say where everything really is.

Call prepare() from the main thread before any thread is started and before the model
is loaded; call NumaWatch.look() after the load and again while serving: pages move and a
cpuset can change. docs/numa.md explains the verdicts.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from llama_runtime.numa.binding import Binding, bind, plan_binding, still_in_force
from llama_runtime.numa.gpus import Gpu, find_gpus
from llama_runtime.numa.limits import allowed_cpus, allowed_mems, cpu_quota
from llama_runtime.numa.pages import read_pages
from llama_runtime.numa.topology import read_topology
from llama_runtime.numa.verdict import (
    LOCAL_RATIO,
    NUMAPolicy,
    NumaReport,
    Observation,
    Verdict,
    judge,
)
from llama_runtime.numa.watch import NumaWatch

__all__ = [
    "Binding",
    "NUMAPolicy",
    "NumaReport",
    "NumaWatch",
    "Verdict",
    "cpu_quota",
    "observe",
    "prepare",
]


@dataclass(frozen=True)
class Prepared:
    """``gpus`` don't change while a container lives; asking NVML again would cost."""

    gpus: tuple[Gpu, ...]
    binding: Binding


# A process has one affinity: what was done to it is a fact of the process.
_prepared: Prepared | None = None


def prepare(policy: NUMAPolicy, root: Path = Path("/")) -> Binding:
    """Narrow affinity and memory policy to the GPUs' node; with policy None do nothing."""
    global _prepared
    gpus, cpus = find_gpus(root), allowed_cpus(root)
    if policy == "None":
        binding = Binding(cpus)
    else:
        mems, quota = allowed_mems(root), cpu_quota(root)
        binding = bind(plan_binding(read_topology(root), cpus, mems, gpus, quota), cpus)
    _prepared = Prepared(gpus, binding)
    return binding


def observe(policy: NUMAPolicy, root: Path = Path("/"), enough: float = LOCAL_RATIO) -> NumaReport:
    """Read everything anew and judge it; ``enough`` as for judge(). Takes milliseconds, and
    about 15 ms for each GiB of resident 4-KiB pages: call it outside the event loop."""
    cpus = allowed_cpus(root)
    prepared = _prepared or Prepared(find_gpus(root), Binding(cpus))
    binding = still_in_force(prepared.binding, cpus)
    seen = Observation(
        topology=read_topology(root),
        cpus=binding.given,
        mems=allowed_mems(root),
        gpus=prepared.gpus,
        pages_kib=read_pages(root),
        binding=binding,
    )
    return judge(seen, policy, enough)
