"""A kubelet and a Prometheus: asks the management port on new connections, and takes the time."""

from __future__ import annotations

import http.client
import json
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.bench.runtime.servers import REPOSITORY

PATHS = ("/healthz", "/readyz", "/startupz", "/metrics")
PAUSE_SECONDS = 0.2


class Probes:
    """Seconds of each answer, by path; filled when the probing ends."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {path: [] for path in PATHS}


@contextmanager
def probing(port: int) -> Iterator[Probes]:
    """Probes from a process of its own: what is measured is the server, not its clients."""
    probes = Probes()
    process = subprocess.Popen(
        [sys.executable, "-m", __name__, str(port)],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        yield probes
    finally:
        output, _ = process.communicate(b"\n")
        probes.seconds.update(json.loads(output))


def main(port: int) -> None:
    """Until there is something to read on standard input."""
    seconds: dict[str, list[float]] = {path: [] for path in PATHS}
    while not select.select([sys.stdin], [], [], PAUSE_SECONDS)[0]:
        for path in PATHS:
            started = time.perf_counter()
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", path)
            connection.getresponse().read()
            connection.close()
            seconds[path].append(time.perf_counter() - started)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main(int(sys.argv[1]))
