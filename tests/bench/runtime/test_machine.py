from __future__ import annotations

import os
import subprocess
import sys
import time

from tests.bench.runtime.machine import bench_seconds, watch

BURNED = 0.4
BURN = [
    sys.executable,
    "-c",
    f"import time\nwhile time.process_time() < {BURNED}: pass\nprint(flush=True)\ninput()",
]


def start() -> subprocess.Popen[bytes]:
    """A program that has used its CPU time and waits for a line."""
    process = subprocess.Popen(BURN, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def end(process: subprocess.Popen[bytes]) -> None:
    process.communicate(b"\n")


def test_the_servers_cpu_time_is_the_benchs() -> None:
    server = start()
    idle = subprocess.Popen(["sleep", "60"])
    difference = bench_seconds(server.pid) - bench_seconds(idle.pid)
    idle.kill()
    idle.wait()
    end(server)
    assert difference >= BURNED / 2


def test_the_cpu_time_of_ended_clients_is_the_benchs() -> None:
    server, client = start(), start()
    before = bench_seconds(server.pid)
    end(client)
    difference = bench_seconds(server.pid) - before
    end(server)
    assert difference >= BURNED / 2


def test_the_cpu_time_of_other_programs_disturbs() -> None:
    server = start()
    began = time.monotonic()
    with watch(server.pid) as disturbance:
        other = start()
        seconds = time.monotonic() - began
    end(other)
    end(server)
    assert disturbance.share * seconds * (os.cpu_count() or 1) >= BURNED / 2
