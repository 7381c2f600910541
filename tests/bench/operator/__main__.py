"""make bench-operator: 1,000 and 5,000 resources, a table, and build/bench/operator.json."""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import time

from rich.console import Console

from llama_operator.connection import connect
from tests.bench import figures, report
from tests.bench.figures import Figure, percentile
from tests.bench.operator import audit
from tests.bench.operator.audit import AuditLog
from tests.bench.operator.cluster import bench_cluster, operator_kubeconfig, runtimes
from tests.bench.operator.fleet import Fleet
from tests.bench.operator.subject import REPOSITORY, Subject
from tests.cluster_fixtures import Cluster

FOLDER = REPOSITORY / "build/bench"
RESULT = FOLDER / "operator.json"
PAGE = REPOSITORY / "docs/bench-operator.md"
SIZES = (1000, 5000)
TARGETS = 1000
"""Number of resources that the targets are about."""
SAMPLES = 200
RESYNC_SECONDS = 30
REST_SECONDS = 75
SETTLE_SECONDS = 10
SEED = 1


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, action="append", help="resources; may be repeated")
    parser.add_argument("--keep", action="store_true", help="keep the figures of other sizes")
    parser.add_argument(
        "--write-docs", action="store_true", help="put the last figures into the docs, run nothing"
    )
    arguments = parser.parse_args()
    if arguments.write_docs:
        table = report.markdown(figures.read(RESULT))
        PAGE.write_text(report.replace_figures(PAGE.read_text(), table))
        return
    console = Console(highlight=False)
    sizes = tuple(arguments.size or SIZES)
    found = []
    if arguments.keep and RESULT.exists():
        mine = tuple(f"{size:,} resources: " for size in sizes)
        found = [figure for figure in figures.read(RESULT) if not figure.name.startswith(mine)]
    for size in sizes:
        console.print(f"{size:,} resources")
        found += measure(size, console)
        figures.write(RESULT, found)
    console.print(report.table("The operator", found))
    console.print(f"Written to {RESULT.relative_to(REPOSITORY)}.")


def measure(size: int, console: Console) -> list[Figure]:
    """All figures of one number of resources, on a fresh cluster."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with bench_cluster(FOLDER) as (cluster, log):
        kubeconfig = operator_kubeconfig(cluster, FOLDER)
        subject = Subject(kubeconfig, FOLDER, f"--resync-seconds={RESYNC_SECONDS}")
        try:
            subject.wait_ready()
            return asyncio.run(_measure(size, cluster, log, subject, console))
        finally:
            subject.stop()


async def _measure(
    size: int, cluster: Cluster, log: AuditLog, subject: Subject, console: Console
) -> list[Figure]:
    promised = size == TARGETS
    figure = _Figures(size)
    os.environ["KUBECONFIG"] = str(cluster.kubeconfig)
    async with runtimes(), connect() as connection:
        fleet = Fleet(connection)
        async with fleet.watched():
            empty, cpu = subject.memory(), subject.cpu_seconds()
            log.news()
            began = time.perf_counter()
            await fleet.create(size)
            created = time.perf_counter() - began
            await fleet.all_ready(size)
            ready = time.perf_counter() - began
            console.print(f"[dim]created in {created:.1f} s, all Ready after {ready:.1f} s")
            await asyncio.sleep(SETTLE_SECONDS)
            used, requests = subject.cpu_seconds() - cpu, log.news()
            by_verb = ", ".join(f"{n / size:.2f} {verb}" for verb, n in requests.most_common())
            figure.add("until all are Ready", ready, "s", note=f"made in {created:.0f} s")
            figure.add("API requests a resource", requests.total() / size, "",
                       6 if promised else None, by_verb)  # fmt: skip
            figure.add("CPU a resource", 1000 * used / size, "ms", 30 if promised else None,
                       f"{used:.1f} s in all, to Ready and {SETTLE_SECONDS} s more")  # fmt: skip
            cpu = subject.cpu_seconds()
            await asyncio.sleep(REST_SECONDS)
            at_rest, share = log.news(), (subject.cpu_seconds() - cpu) / REST_SECONDS
            reads = ", ".join(f"{number} {verb}" for verb, number in at_rest.most_common())
            figure.add("writes at rest", audit.writes(at_rest), f"in {REST_SECONDS} s",
                       0 if promised else None,
                       f"{REST_SECONDS // RESYNC_SECONDS} resyncs; reads: {reads}")  # fmt: skip
            figure.add("CPU at rest", 100 * share, "%",
                       note=f"a full list each {RESYNC_SECONDS} s instead of 600 s, "
                       "each pod asked each 30 s")  # fmt: skip
            figure.add("RSS", subject.memory(), "MiB", 130 if promised else None,
                       f"at rest; {empty:.0f} MiB without resources, "
                       f"{subject.memory('VmHWM'):.0f} MiB at its highest")  # fmt: skip
            picked = random.Random(SEED).sample(range(size), min(SAMPLES, size))
            times = [await fleet.reaction(index) for index in picked]
            note = f"from the change of one resource to its new pod; {len(times)} samples"
            figure.add("reaction p50", percentile(times, 50), "s", note=note)
            figure.add("reaction p99", percentile(times, 99), "s", 1 if promised else None,
                       f"the slowest took {max(times):.2f} s")  # fmt: skip
    return figure.found


class _Figures:
    """Collects figures whose names begin with the number of resources; less is better."""

    def __init__(self, size: int) -> None:
        self._size = size
        self.found: list[Figure] = []

    def add(
        self, name: str, value: float, unit: str, target: float | None = None, note: str = ""
    ) -> None:
        name = f"{self._size:,} resources: {name}"
        self.found.append(Figure(name, value, unit, "lower", target, note))


def _stop(_signal: int, _frame: object) -> None:
    """Leave through the ``finally`` that stops the cluster and the operator."""
    raise SystemExit("The bench was told to stop.")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stop)
    main()
