"""Is everything of this container on one NUMA node? A pure function of what was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from llama_runtime.numa.binding import Binding
from llama_runtime.numa.gpus import Gpu
from llama_runtime.numa.topology import Topology, format_list

NUMAPolicy = Literal["None", "Preferred", "Required"]
Verdict = Literal[
    "Aligned",
    "CpusSpanNodes",
    "MemsSpanNodes",
    "GpuRemote",
    "MemoryRemote",
    "SingleNode",
    "Unknown",
]

LOCAL_RATIO = 0.95


@dataclass(frozen=True)
class Observation:
    """``cpus`` and ``mems``: what the container was given, before the runtime narrowed
    it. ``pages_kib``: node to KiB, None when the kernel doesn't say."""

    topology: Topology
    cpus: frozenset[int]
    mems: frozenset[int]
    gpus: tuple[Gpu, ...]
    pages_kib: Mapping[int, int] | None
    binding: Binding


@dataclass(frozen=True)
class NumaReport:
    """The ``numa`` object of /status (docs/architecture.md), and whether to serve."""

    policy: NUMAPolicy
    verdict: Verdict
    message: str
    cpus: str
    cpu_nodes: tuple[int, ...]
    mems: str
    gpu_nodes: tuple[int | None, ...]
    pages_mib: Mapping[int, float]
    local_ratio: float | None
    bound_cpus: str | None
    memory_policy: str | None
    changes: int = 0
    changed_at: str | None = None
    previous_verdict: Verdict | None = None

    def after(self, before: NumaReport) -> NumaReport:
        """The same, with what has changed while serving as `before` has it."""
        history = ""
        if before.changed_at is not None:
            history = f" It was {before.previous_verdict} until {before.changed_at}."
        return replace(
            self,
            message=self.message + history,
            changes=before.changes,
            changed_at=before.changed_at,
            previous_verdict=before.previous_verdict,
        )

    @property
    def aligned(self) -> bool:
        """What numa.policy Required asks for. A machine with one node has no remote memory."""
        return self.verdict in ("Aligned", "SingleNode")

    @property
    def misplaced(self) -> bool:
        """What the container was given rules alignment out, whatever is loaded into it."""
        return self.verdict in ("CpusSpanNodes", "MemsSpanNodes", "GpuRemote")

    def as_dict(self) -> dict[str, Any]:
        return {
            "policy": self.policy,
            "verdict": self.verdict,
            "message": self.message,
            "cpus": self.cpus,
            "cpuNodes": list(self.cpu_nodes),
            "mems": self.mems,
            "gpuNodes": list(self.gpu_nodes),
            "pagesMiB": {str(node): mib for node, mib in self.pages_mib.items()},
            "localRatio": self.local_ratio,
            "boundCpus": self.bound_cpus,
            "memoryPolicy": self.memory_policy,
            "changes": self.changes,
            "changedAt": self.changed_at,
            "previousVerdict": self.previous_verdict,
        }


def judge(seen: Observation, policy: NUMAPolicy, enough: float = LOCAL_RATIO) -> NumaReport:
    """The verdict and its numbers. ``policy`` is passed on; it never changes the verdict.
    ``enough``: the share of local pages from which memory counts as local."""
    cpu_nodes = tuple(sorted(seen.topology.nodes_of(seen.cpus)))
    known, unknown = split_gpus(seen.gpus)
    ratio = local_ratio(seen)
    verdict = decide(seen, frozenset(cpu_nodes), ratio, enough)
    pages = {node: kib / 1024 for node, kib in sorted((seen.pages_kib or {}).items())}
    return NumaReport(
        policy=policy,
        verdict=verdict,
        message=f"{MEANING[verdict]} {numbers(seen, cpu_nodes, ratio)}",
        cpus=format_list(seen.cpus),
        cpu_nodes=cpu_nodes,
        mems=format_list(seen.mems),
        gpu_nodes=(*sorted(known), *([None] if unknown else [])),
        pages_mib={node: round(mib, 1) for node, mib in pages.items()},
        local_ratio=None if ratio is None else round(ratio, 4),
        bound_cpus=format_list(seen.binding.cpus) if seen.binding.cpus else None,
        memory_policy=seen.binding.memory_policy,
    )


def decide(
    seen: Observation, cpu_nodes: frozenset[int], ratio: float | None, enough: float
) -> Verdict:
    """What was given comes before what came of it: a pod whose CPUs span nodes may still
    have all its pages on one of them, until the next allocation or the next pod."""
    known, unknown = split_gpus(seen.gpus)
    if len(seen.topology.cpus) == 1:
        return "SingleNode"
    if len(cpu_nodes) > 1:
        return "CpusSpanNodes"
    if len(seen.mems) > 1:
        return "MemsSpanNodes"
    if cpu_nodes and known - cpu_nodes:
        return "GpuRemote"
    if cpu_nodes and seen.mems and (seen.mems != cpu_nodes or below(ratio, enough)):
        return "MemoryRemote"
    if not cpu_nodes or not seen.mems or unknown or ratio is None:
        return "Unknown"
    return "Aligned"


def below(ratio: float | None, enough: float) -> bool:
    return ratio is not None and ratio < enough


def local_ratio(seen: Observation) -> float | None:
    """The part of the pages that lies on the node of the CPUs the process runs on, 0 to 1.
    None when those CPUs span nodes, or when there are no pages to count."""
    running = seen.topology.nodes_of(seen.binding.cpus or seen.cpus)
    total = sum((seen.pages_kib or {}).values())
    if len(running) != 1 or not seen.pages_kib or not total:
        return None
    return sum(seen.pages_kib.get(node, 0) for node in running) / total


def split_gpus(gpus: tuple[Gpu, ...]) -> tuple[frozenset[int], bool]:
    """The nodes that are known, and whether the node of some GPU is not."""
    nodes = {gpu.node for gpu in gpus}
    return frozenset(node for node in nodes if node is not None), None in nodes


MEANING: dict[Verdict, str] = {
    "Aligned": "CPUs, memory and any GPU are on one NUMA node.",
    "CpusSpanNodes": "The container was given CPUs of several NUMA nodes.",
    "MemsSpanNodes": "The container may allocate memory on several NUMA nodes.",
    "GpuRemote": "A GPU is on another NUMA node than the CPUs.",
    "MemoryRemote": "Memory is on another NUMA node than the CPUs.",
    "SingleNode": "The machine has one NUMA node: nothing can be remote.",
    "Unknown": "What is on which NUMA node can't be told.",
}


def numbers(seen: Observation, cpu_nodes: tuple[int, ...], ratio: float | None) -> str:
    parts = [
        f"CPUs {format_list(seen.cpus) or 'unknown'} (node {format_list(cpu_nodes) or 'unknown'})",
        f"memory from node {format_list(seen.mems) or 'unknown'}",
    ]
    for gpu in seen.gpus:
        parts.append(f"GPU {gpu.bus_id} (node {'unknown' if gpu.node is None else gpu.node})")
    if seen.pages_kib is None:
        parts.append("pages unknown")
    else:
        pages = [f"{kib / 1024:.1f} on {node}" for node, kib in sorted(seen.pages_kib.items())]
        local = "" if ratio is None else f", {100 * ratio:.1f} % local"
        parts.append(f"MiB of pages: {', '.join(pages) or 'none'}{local}")
    if seen.binding.note:
        parts.append(seen.binding.note)
    return "; ".join(parts) + "."
