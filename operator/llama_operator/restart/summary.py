"""The sentence about a run in `status.restart.message`."""

from __future__ import annotations

from collections.abc import Mapping

from llama_operator.api import LastRestart, RestartRun
from llama_operator.restart.gain import gained

SUGGESTION = "Nothing was gained by it: think of restart.when Fragmented."

CLOSED = "The window closed before every pod had its turn."
LAPSED = (
    "What was asked for by hand lapsed after restart.window, before every pod had its turn: "
    "give the annotation a new value to ask again."
)


def tell_run(
    run: RestartRun, when: str, last_restarts: Mapping[str, LastRestart], waiting: str
) -> str:
    """What the run has done, and what it waits for, in sentences."""
    parts = [_count(run)]
    parts += [f"Pod {entry.name}: {entry.message}" for entry in run.pods if entry.state == "Failed"]
    busy = [entry for entry in run.pods if entry.state == "Asked"]
    if run.state == "Running":
        parts += [f"Restarting {entry.name} ({entry.method})." for entry in busy]
        parts.append(waiting)
    elif run.state == "Closed":
        parts.append(LAPSED if run.cause == "Hand" else CLOSED)
        parts.append(waiting)
    elif run.state == "Halted":
        parts.append("The run was halted: see the condition RestartHalted.")
    elif _in_vain(run, when, last_restarts):
        parts.append(SUGGESTION)
    return " ".join(part for part in parts if part)


def _count(run: RestartRun) -> str:
    done = sum(entry.state == "Done" for entry in run.pods)
    alone = [entry for entry in run.pods if entry.state == "LeftAlone"]
    said = f"{done} {'pod was' if done == 1 else 'pods were'} restarted"
    if not alone:
        return f"{said}."
    return f"{said}, {len(alone)} left alone. Pod {alone[0].name}: {alone[0].message}"


def _in_vain(run: RestartRun, when: str, last_restarts: Mapping[str, LastRestart]) -> bool:
    """The schedule restarted pods that measured the same before and after."""
    done = [last_restarts.get(entry.name) for entry in run.pods if entry.state == "Done"]
    return (
        run.cause == "Schedule"
        and when == "Always"
        and bool(done)
        and all(last is not None and gained(last.before, last.after) is False for last in done)
    )
