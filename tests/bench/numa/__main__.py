"""make bench-numa: decode and load time, memory local against remote, on two real NUMA nodes."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

from rich.console import Console

from llama_runtime.numa.topology import Topology, format_list, read_topology
from tests.bench import figures, report
from tests.bench.figures import Figure, ratio, rounds

REPOSITORY = Path(__file__).resolve().parents[3]
RESULT = REPOSITORY / "build/bench/numa.json"
PLACE = Path(__file__).with_name("place.py")
PLACED = 0.9
"""Share of the pages that must be on the node asked for, or the measurement says nothing."""


@dataclass(frozen=True, order=True)
class Placement:
    """CPUs of one node, memory of one node."""

    cpu_node: int
    memory_node: int

    @property
    def local(self) -> bool:
        return self.cpu_node == self.memory_node


Measure = Callable[[Placement], Mapping[str, Any]]


def main() -> None:
    """Measure and print; where it cannot be measured, say so and write nothing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="default: 5")
    parser.add_argument("--model", type=Path, default=os.environ.get("LLAMA_TEST_MODEL"))
    parser.add_argument(
        "--write-docs", action="store_true", help="put the last figures into the docs, run nothing"
    )
    arguments = parser.parse_args()
    if arguments.write_docs:
        page = REPOSITORY / "docs/numa.md"
        content = report.markdown(figures.read(RESULT))
        page.write_text(report.replace_figures(page.read_text(), content))
        return
    topology = read_topology()
    if (why := unmeasurable(topology, Path("/proc/cpuinfo").read_text())) is not None:
        print(why)
        return
    if arguments.model is None:
        raise SystemExit("Give --model FILE, best one larger than the last-level cache.")

    def measure(placement: Placement) -> Mapping[str, Any]:
        return run(arguments.model, topology, placement)

    found = compare(topology, measure, arguments.rounds)
    figures.write(RESULT, found)
    Console(highlight=False).print(report.table("Memory on the own node and on another", found))


def unmeasurable(topology: Topology, cpuinfo: str) -> str | None:
    """Why this machine can tell nothing about local and remote memory; None when it can."""
    nodes = nodes_with_cpus(topology)
    if len(nodes) < 2:
        return (
            f"Nothing was measured: this machine shows {len(nodes)} NUMA node with CPUs, and local "
            "against remote memory needs two. Run make bench-numa on a server with two sockets."
        )
    if "QEMU TCG" in cpuinfo:
        return (
            "Nothing was measured: this machine is emulated, so where its pages lie is real and "
            "how fast they are reached is not."
        )
    return None


def nodes_with_cpus(topology: Topology) -> list[int]:
    return sorted(node for node, cpus in topology.cpus.items() if cpus)


def placements(topology: Topology) -> list[Placement]:
    """Each node's CPUs with its own memory, then with that of the others."""
    nodes = nodes_with_cpus(topology)
    own = [Placement(node, node) for node in nodes]
    return own + [Placement(cpu, memory) for cpu, memory in permutations(nodes, 2)]


def compare(topology: Topology, measure: Measure, count: int) -> list[Figure]:
    """Remote over local for each pair of nodes; the placements take turns in every round."""
    measured: dict[Placement, list[Mapping[str, Any]]] = {}
    for _ in range(count):
        for placement in placements(topology):
            measured.setdefault(placement, []).append(measure(placement))
    found = []
    for placement in placements(topology):
        if placement.local:
            continue
        near = measured[Placement(placement.cpu_node, placement.cpu_node)]
        far = measured[placement]
        where = f"CPUs on node {placement.cpu_node}, memory on {placement.memory_node}"
        found += [
            ratio(
                f"decode, {where}",
                rounds((item["tokensPerSecond"] for item in far), "higher"),
                rounds((item["tokensPerSecond"] for item in near), "higher"),
                "local memory",
                "tokens/s",
                None,
            ),
            ratio(
                f"load, {where}",
                rounds((item["loadSeconds"] for item in far), "lower"),
                rounds((item["loadSeconds"] for item in near), "lower"),
                "local memory",
                "s",
                None,
            ),
        ]
    return found


def run(model: Path, topology: Topology, placement: Placement) -> Mapping[str, Any]:
    """One measurement in a process of its own. Raises SystemExit when its pages lie elsewhere."""
    cpus = format_list(topology.cpus[placement.cpu_node] & os.sched_getaffinity(0))
    done = subprocess.run(
        [sys.executable, str(PLACE), "--model", str(model), "--cpus", cpus,
         "--memory-node", str(placement.memory_node)],
        stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(f"{placement} could not be measured: the reason is above.")
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    share = placed(measured["pagesMiB"], placement)
    if share < PLACED:
        raise SystemExit(
            f"{placement}: only {share:.0%} of the pages are on the memory's node, so this would "
            "compare nothing: free memory there."
        )
    return measured


def placed(pages: Mapping[str, float], placement: Placement) -> float:
    """The share of the pages on the node that was asked for, 0 to 1."""
    total = sum(pages.values())
    return pages.get(str(placement.memory_node), 0.0) / total if total else 0.0


if __name__ == "__main__":
    main()
