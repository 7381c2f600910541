"""make bench-runtime: all scenarios, a table, and build/bench/runtime.json."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from tests.bench import figures, report
from tests.bench.figures import Figure
from tests.bench.runtime import page
from tests.bench.runtime.bench import Bench
from tests.bench.runtime.load import BenchError
from tests.bench.runtime.scenarios import (
    chats,
    cures,
    decode,
    fairness,
    long_prompt,
    shared_prompt,
    throughput,
)
from tests.bench.runtime.servers import REPOSITORY

RESULT = REPOSITORY / "build/bench/runtime.json"
SCENARIOS: dict[str, Callable[[Bench], list[Figure]]] = {
    "throughput": throughput.run,
    "decode": decode.run,
    "cures": cures.run,
    "long-prompt": long_prompt.run,
    "shared-prompt": shared_prompt.run,
    "chats": chats.run,
    "fairness": fairness.run,
}


def main() -> None:
    """Run what the command line asks for; the status is 1 when a scenario could not run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only",
        choices=SCENARIOS,
        action="append",
        help="may be repeated; the other scenarios' last figures stay",
    )
    parser.add_argument("--model", choices=("Q4_0", "F16"), help="default: both")
    parser.add_argument("--rounds", type=int, default=3, help="default: 3")
    parser.add_argument("--quick", action="store_true", help="3 minutes: one small round, Q4_0")
    parser.add_argument(
        "--write-docs", action="store_true", help="put the last figures into the docs, run nothing"
    )
    arguments = parser.parse_args()
    if arguments.write_docs:
        page.write(REPOSITORY / "docs", figures.read(RESULT))
        return
    console = Console(highlight=False)
    bench = Bench(
        models=_models(arguments.quick, arguments.model),
        rounds=1 if arguments.quick else arguments.rounds,
        quick=arguments.quick,
        say=lambda line: console.print(f"[dim]{line}"),
    )
    found, failed = run(bench, arguments.only or list(SCENARIOS), console)
    if (arguments.only or arguments.model) and RESULT.exists():
        figures.write(RESULT, figures.merged(figures.read(RESULT), found))
    else:
        figures.write(RESULT, found)
    console.print(report.table("The runtime and its peers", found))
    console.print(f"Written to {RESULT.relative_to(REPOSITORY)}.")
    raise SystemExit(1 if failed else 0)


def run(bench: Bench, names: list[str], console: Console) -> tuple[list[Figure], bool]:
    """The figures of the scenarios, and whether one of them failed."""
    found: list[Figure] = []
    failed = False
    for name in names:
        console.print(f"{name}: {sys.modules[SCENARIOS[name].__module__].__doc__}")
        try:
            found += SCENARIOS[name](bench)
        except BenchError as error:
            console.print(f"[red]{name} could not be measured. {error}")
            failed = True
    if bench.disturbances:
        found.append(
            Figure(
                name=f"CPU time of other programs while measuring {', '.join(names)}",
                value=100 * sum(bench.disturbances) / len(bench.disturbances),
                unit="%",
                better="lower",
                target=None,
                note=f"at most {max(bench.disturbances):.0%} in one measurement",
            )
        )
    return found, failed


def _models(quick: bool, only: str | None) -> dict[str, Path]:
    """The files by quantization: LLAMA_TEST_MODEL, and the same model in F16."""
    given = os.environ.get("LLAMA_TEST_MODEL")
    if not given:
        raise SystemExit("LLAMA_TEST_MODEL is not set: run make bench-runtime.")
    models = {"Q4_0": Path(given)}
    if only == "F16" or not (quick or only):
        command = [sys.executable, str(REPOSITORY / "tools/model.py"), "--type", "F16", "--quiet"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise SystemExit("The model could not be made in F16: the reason is above.")
        models["F16"] = Path(done.stdout.strip())
    return {only: models[only]} if only else models


def _stop(_signal: int, _frame: object) -> None:
    """Leave through the ``finally`` that stops the servers."""
    raise SystemExit("The bench was told to stop.")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stop)
    main()
