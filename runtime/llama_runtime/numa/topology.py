"""The machine's NUMA nodes, from sysfs (kernel: Documentation/admin-guide/mm/numaperf.rst)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

NODES = Path("sys/devices/system/node")


@dataclass(frozen=True)
class Topology:
    """``cpus``: node to its CPUs, empty for a node of memory alone. ``free_kib``: node to
    its free memory in KiB, 0 where unknown. Both are empty when the kernel shows no nodes."""

    cpus: Mapping[int, frozenset[int]]
    free_kib: Mapping[int, int]

    def nodes_of(self, cpus: Iterable[int]) -> frozenset[int]:
        wanted = frozenset(cpus)
        return frozenset(node for node, own in self.cpus.items() if own & wanted)


def read_topology(root: Path = Path("/")) -> Topology:
    """The nodes that are online. A missing sysfs gives an empty topology, not an error."""
    cpus: dict[int, frozenset[int]] = {}
    free_kib: dict[int, int] = {}
    for folder in sorted((root / NODES).glob("node*")):
        number = folder.name.removeprefix("node")
        if not number.isdecimal():
            continue
        try:
            cpus[int(number)] = parse_list((folder / "cpulist").read_text())
        except OSError:
            continue
        free_kib[int(number)] = read_free_kib(folder / "meminfo")
    return Topology(cpus, free_kib)


def read_free_kib(meminfo: Path) -> int:
    try:
        found = re.search(r"MemFree:\s*(\d+) kB", meminfo.read_text())
    except OSError:
        return 0
    return int(found[1]) if found else 0


def parse_list(text: str) -> frozenset[int]:
    """The kernel's list format: ``"0-3,8\\n"`` is 0, 1, 2, 3, 8 and ``"\\n"`` nothing.

    Raises ValueError for anything else.
    """
    numbers: set[int] = set()
    for part in text.strip().split(","):
        if not part and not text.strip():
            continue
        found = re.fullmatch(r"(\d+)(?:-(\d+))?", part, re.ASCII)
        if not found:
            raise ValueError(f"{text!r} is not a list like 0-3,8")
        first, last = int(found[1]), int(found[2] or found[1])
        if last < first:
            raise ValueError(f"{text!r} counts down")
        numbers.update(range(first, last + 1))
    return frozenset(numbers)


def format_list(numbers: Iterable[int]) -> str:
    """The reverse of parse_list, shortest form: ``"0-3,8"``."""
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)
