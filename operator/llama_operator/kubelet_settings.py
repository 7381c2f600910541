"""Which settings a kubelet lacks, concluded from what a pod measured. Pure.

Nothing in the Kubernetes API shows a kubelet's managers. What it gave to a Guaranteed pod
with whole CPUs does: static CPU Manager gives as many CPUs as were asked for and no more
(KEP-3570), Static Memory Manager narrows the memory nodes (KEP-1769), and a single-numa-node
Topology Manager refuses a pod rather than giving it parts of two nodes (KEP-693).
"""

from __future__ import annotations

from dataclasses import dataclass

from llama_operator.runtime_status import MISALIGNED, NumaReading

CPU_MANAGER = ("cpuManagerPolicy: static", 'reservedSystemCPUs: "0"')
TOPOLOGY_MANAGER = ("topologyManagerPolicy: single-numa-node", "topologyManagerScope: pod")
MEMORY_MANAGER = (
    "memoryManagerPolicy: Static",
    "reservedMemory: [{numaNode: 0, limits: {memory: SUM}}]",
)
SUM = "SUM is kubeReserved + systemReserved + evictionHard."


@dataclass(frozen=True, slots=True)
class Missing:
    """A setting that the kubelet lacks."""

    why: str
    """The setting and the measurement that shows it."""

    lines: tuple[str, ...]
    """What to add to the KubeletConfiguration."""


def missing_settings(numa: NumaReading, cpus: int) -> tuple[Missing, ...]:
    """What the kubelet lacks that gave `numa` to a Guaranteed pod of `cpus` whole CPUs.

    Empty when it is not the kubelet's doing, as with memory that another process placed.
    """
    if numa.verdict not in MISALIGNED:
        return ()
    given, mems = len(parse_list(numa.cpus)), parse_list(numa.mems)
    nodes = frozenset(numa.cpu_nodes or ())
    found = []
    shared = given > cpus
    if shared:
        why = f"cpuManagerPolicy is not static: {cpus} CPUs were asked for and {given} given"
        found.append(Missing(why, CPU_MANAGER))
    elsewhere = [node for node in numa.gpu_nodes or () if node is not None and node not in nodes]
    if not shared and (len(nodes) > 1 or elsewhere or (len(mems) == 1 and mems != nodes)):
        why = "topologyManagerPolicy is not single-numa-node: the parts are of several nodes"
        found.append(Missing(why, TOPOLOGY_MANAGER))
    if len(mems) > 1:
        why = f"memoryManagerPolicy is not Static: memory may come from nodes {numa.mems}"
        found.append(Missing(why, MEMORY_MANAGER))
    if shared:
        # What a Topology Manager does cannot be seen while no CPU is exclusive; it is needed too.
        found[0] = Missing(found[0].why, CPU_MANAGER + TOPOLOGY_MANAGER)
    return tuple(found)


def advice(node: str | None, numa: NumaReading, cpus: int) -> str:
    """The sentence and the lines that follow the verdict; empty when there is none to give."""
    found = missing_settings(numa, cpus)
    if not found:
        return ""
    lines = [line for missing in found for line in missing.lines]
    reasons = "; ".join(missing.why for missing in found)
    hint = f" {SUM}" if MEMORY_MANAGER[1] in lines else ""
    return (
        f"The kubelet of node {node or 'unknown'} does not align: {reasons}. "
        f"Add to its configuration and restart it as docs/numa.md says:{hint}\n" + "\n".join(lines)
    )


def parse_list(text: str | None) -> frozenset[int]:
    """The kernel's `0-3,8`; empty when it cannot be read."""
    numbers: set[int] = set()
    for part in (text or "").split(","):
        first, _, last = part.partition("-")
        if not (first.isdecimal() and (last or first).isdecimal()):
            return frozenset()
        numbers.update(range(int(first), int(last or first) + 1))
    return frozenset(numbers)
