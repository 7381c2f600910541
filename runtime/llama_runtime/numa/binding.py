"""Move this process to one NUMA node, as far as an unprivileged container may.

Affinity can always be narrowed within what was given. A memory policy needs the system
call set_mempolicy, which the default seccomp profile allows only with CAP_SYS_NICE: it
is tried, and a refusal is normal. Both are inherited by the threads started afterwards.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
from dataclasses import dataclass, replace
from pathlib import Path

from llama_runtime.numa.gpus import Gpu
from llama_runtime.numa.topology import Topology, format_list

SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}  # asm/unistd_64.h, asm-generic/unistd.h
MPOL_PREFERRED = 1  # linux/mempolicy.h
BITS_PER_LONG = 8 * ctypes.sizeof(ctypes.c_ulong)


@dataclass(frozen=True)
class Plan:
    """``cpus`` empty: leave the affinity. ``memory_node`` None: leave the memory policy."""

    cpus: frozenset[int]
    memory_node: int | None
    note: str = ""


@dataclass(frozen=True)
class Binding:
    """What was done. ``given``: the CPUs before it. ``cpus`` empty: affinity was left as
    it was. ``memory_policy``: ``Preferred``, ``Refused (EPERM)``, or None when it wasn't
    tried."""

    given: frozenset[int]
    cpus: frozenset[int] = frozenset()
    memory_policy: str | None = None
    note: str = ""


def plan_binding(
    topology: Topology,
    cpus: frozenset[int],
    mems: frozenset[int],
    gpus: tuple[Gpu, ...],
    quota: float | None,
) -> Plan:
    """What to narrow, given the allowed CPUs and memory nodes.

    The target is the node of the GPUs when there is exactly one and we have CPUs there.
    Without a GPU it is the CPUs' own node; when they span nodes, the one with the most
    free memory of those whose CPUs suffice for the quota: binding must not cost CPUs.
    """
    own = topology.nodes_of(cpus)
    target = target_node(topology, cpus, mems, gpus, quota)
    if target is None:
        why = "not bound: no single node has the GPUs and enough of the CPUs"
        return Plan(frozenset(), None, why if len(own) > 1 else "")
    narrowed = cpus & topology.cpus[target] if len(own) > 1 else frozenset()
    return Plan(narrowed, target if len(mems) > 1 and target in mems else None)


def target_node(
    topology: Topology,
    cpus: frozenset[int],
    mems: frozenset[int],
    gpus: tuple[Gpu, ...],
    quota: float | None,
) -> int | None:
    own = topology.nodes_of(cpus)
    if gpus:
        nodes = {gpu.node for gpu in gpus}
        node = nodes.pop()
        return node if not nodes and node in own else None
    if len(own) == 1:
        return next(iter(own))
    enough = [
        node
        for node in own & mems
        if quota is not None and len(cpus & topology.cpus[node]) >= quota
    ]
    return max(enough, key=lambda node: (topology.free_kib[node], -node), default=None)


def bind(plan: Plan, given: frozenset[int]) -> Binding:
    """Carry out the plan for every thread of this process. Never raises: what the kernel
    refuses is in the note."""
    notes = [plan.note] if plan.note else []
    cpus, policy = frozenset[int](), None
    if plan.cpus:
        try:
            set_affinity(plan.cpus)
            cpus = plan.cpus
            notes.append(f"the runtime runs on CPUs {format_list(cpus)}")
        except OSError as error:
            notes.append(f"affinity refused ({error_name(error.errno)})")
    if plan.memory_node is not None:
        refused = set_memory_policy(plan.memory_node)
        policy = f"Refused ({error_name(refused)})" if refused else "Preferred"
        notes.append(
            f"memory policy refused ({error_name(refused)})"
            if refused
            else f"the runtime prefers memory of node {plan.memory_node}"
        )
    return Binding(given, cpus, policy, "; ".join(notes))


def still_in_force(binding: Binding, cpus: frozenset[int]) -> Binding:
    """The binding as of now, ``cpus`` being the mask now. A mask that isn't ours was set by
    the kernel because the cpuset changed: then the mask is what the container is given."""
    if cpus == (binding.cpus or binding.given):
        return binding
    return replace(binding, given=cpus, cpus=frozenset(), note="the CPUs were changed from outside")


def set_affinity(cpus: frozenset[int]) -> None:
    """Of all threads that run now; a thread that ends meanwhile doesn't matter."""
    for thread in sorted(int(entry.name) for entry in Path("/proc/self/task").iterdir()):
        try:
            os.sched_setaffinity(thread, cpus)
        except ProcessLookupError:
            continue


def set_memory_policy(node: int) -> int:
    """set_mempolicy of the calling thread: 0, or the errno of the refusal.

    Preferred, not bind: a full node then falls back to another one and shows in the
    verdict, where binding would end in the kernel killing the process.
    """
    number = SET_MEMPOLICY.get(platform.machine())
    if number is None:
        return errno.ENOSYS
    words = (ctypes.c_ulong * (node // BITS_PER_LONG + 1))()
    words[node // BITS_PER_LONG] = 1 << node % BITS_PER_LONG
    # The kernel takes one bit less than it is told.
    bits = ctypes.c_ulong(BITS_PER_LONG * len(words) + 1)
    libc = ctypes.CDLL(None, use_errno=True)
    done = libc.syscall(ctypes.c_long(number), ctypes.c_int(MPOL_PREFERRED), words, bits)
    return 0 if done == 0 else ctypes.get_errno()


def error_name(number: int | None) -> str:
    return errno.errorcode.get(number or 0, str(number))
