"""What else the machine does while something is measured."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Disturbance:
    """The share of all CPUs, 0 to 1, that programs outside the bench used."""

    share: float = 0.0


@contextmanager
def watch(server_pid: int) -> Iterator[Disturbance]:
    """Fills in the disturbance when the block ends, in which the server and clients run."""
    found = Disturbance()
    began, busy, ours = time.monotonic(), _busy_seconds(), bench_seconds(server_pid)
    yield found
    foreign = (_busy_seconds() - busy) - (bench_seconds(server_pid) - ours)
    cpus = os.cpu_count() or 1
    found.share = max(0.0, foreign / (cpus * (time.monotonic() - began)))


def _busy_seconds() -> float:
    """CPU time of the whole machine that was neither idle nor waiting for a disk."""
    user, nice, system, _idle, _wait, *interrupts = _numbers(Path("/proc/stat").read_text(), 1)
    return (user + nice + system + sum(interrupts[:2])) / TICKS


def bench_seconds(server_pid: int) -> float:
    """CPU time of the server, of this process and of its children that have ended."""
    after_name = Path(f"/proc/{server_pid}/stat").read_text().rpartition(")")[2]
    user, system = _numbers(after_name, 11)[:2]
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return (user + system) / TICKS + sum(usage.ru_utime + usage.ru_stime for usage in used)


def _numbers(text: str, skipped: int) -> list[int]:
    return [int(word) for word in text.splitlines()[0].split()[skipped:]]
