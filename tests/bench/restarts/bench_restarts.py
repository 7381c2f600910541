"""Restarts on node-0 with real images. Run by `make bench-restarts`, not by `make test`.

RUNS is how often the window over three replicas is measured (default 1; the target holds for 5
of 5). The engine's part, what a cure gives back and what a restart keeps, is that of
`bench-runtime`.
"""

from __future__ import annotations

import os
from pathlib import Path

from rich.console import Console

from tests.bench.figures import Figure, write
from tests.bench.report import table
from tests.bench.runtime.scenarios import cures
from tests.cluster_fixtures import REPOSITORY
from tests.e2e.conversations import conversations
from tests.e2e.deployment import Deployment, until
from tests.e2e.restarting import last_restarts, restart_by_hand, schedule_soon, wait_for_run

RUNS = int(os.environ.get("RUNS", "1"))
RESULT = REPOSITORY / "build/bench/restarts.json"


def test_restarts(chat: Deployment) -> None:
    figures = [*_streams(chat), *_downtimes(chat), *_engine()]

    write(RESULT, figures)
    Console(highlight=False).print(table("Restarts", figures))
    assert [figure.name for figure in figures if figure.met is False] == []


def _streams(chat: Deployment) -> list[Figure]:
    """Eight streams over three replicas while a window restarts all of them in place."""
    failures, finished = [], 0
    for _ in range(RUNS):
        # New pods each time: the kubelet delays a second restart in place by ten minutes.
        chat.apply(replicas=3)
        chat.wait_ready(3)
        with conversations(chat) as tally:
            schedule_soon(chat, replicas=3)
            wait_for_run(chat, "every pod was restarted")
        failures += tally.failures
        finished += tally.finished
        chat.cluster.ok("delete", "llama", chat.name, "-n", chat.namespace)
        until("its pods are gone", lambda: not chat.pods())
    note = f"{finished} streams in {RUNS} windows finished; {'; '.join(failures[:3])}".rstrip("; ")
    name = "broken streams and failed requests, 8 streams over 3 replicas"
    return [Figure(name, len(failures), "", "lower", 0, note)]


def _downtimes(chat: Deployment) -> list[Figure]:
    """How long one replica is away: the drain, the start, the load of the model."""
    found = []
    for method in ("Container", "Pod"):
        chat.apply(replicas=1, restart={"method": method}, kv={"maxSequences": 4})
        chat.wait_ready(1)
        restart_by_hand(chat, f"downtime-{method.lower()}")
        (last,) = last_restarts(chat).values()
        seconds = last["downtimeSeconds"]
        name = f"downtime of one replica, {method}"
        found.append(Figure(name, seconds, "s", "lower", None, "without load, model in cache"))
    return found


def _engine() -> list[Figure]:
    """Decode before and after a cure, and the first token of a known chat after a restart."""
    model = Path(os.environ["LLAMA_TEST_MODEL"])
    rounds = [cures.measure(model, threads=1) for _ in range(3)]
    return cures.figures("the test model", rounds)
