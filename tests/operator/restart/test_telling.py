"""Events and counts come from what changed between two statuses, each once."""

from __future__ import annotations

from typing import Any

import pytest

from llama_operator.api import LlamaDeploymentStatus
from llama_operator.restart.telling import ended_restarts, newly_skipped, restart_events

ENTRY = {
    "name": "chat-0",
    "uid": "u",
    "method": "Container",
    "reason": "Scheduled",
    "message": "The schedule asks for it.",
}
LAST = {
    "time": "2026-06-01T03:00:00Z",
    "reason": "Scheduled",
    "method": "Container",
    "downtimeSeconds": 21.0,
    "before": {"spanRatio": 0.5},
}


def status(
    state: str, *, run: str = "Running", last: dict[str, Any] | None = None, skipped: int = 0
) -> LlamaDeploymentStatus:
    found = {
        "id": "20260601T030000Z",
        "cause": "Schedule",
        "openTime": "2026-06-01T03:00:00Z",
        "closeTime": "2026-06-01T05:00:00Z",
        "state": run,
        "pods": [{**ENTRY, "state": state}],
    }
    rows = [{"name": "chat-0", **({"lastRestart": last} if last else {})}]
    restart = {"run": found, "skipped": skipped, "message": "Not reached: chat-1."}
    return LlamaDeploymentStatus.model_validate({"restart": restart, "pods": rows})


def reasons(before: LlamaDeploymentStatus, after: LlamaDeploymentStatus) -> list[str]:
    return [event.reason for event in restart_events(before, after)]


def test_each_step_is_told_once() -> None:
    nothing, asked = LlamaDeploymentStatus(), status("Asked")
    done = status("Done", last=LAST)
    measured = status("Done", last={**LAST, "after": {"spanRatio": 0.0}})

    assert reasons(nothing, asked) == ["Restarting"]
    assert reasons(asked, asked) == []
    assert reasons(asked, done) == ["Restarted"]
    assert reasons(done, measured) == ["RestartMeasured"]
    assert reasons(measured, measured) == []
    (event,) = restart_events(asked, done)
    assert "not Ready for 21 s" in event.message


@pytest.mark.parametrize("state", ["Done", "Failed"])
def test_an_ended_restart_counts_once(state: str) -> None:
    ended = status(state, last=LAST)

    (found,) = ended_restarts(status("Asked"), ended)

    assert (found.method, found.reason, found.result) == ("Container", "Scheduled", state)
    assert found.downtime_seconds == 21.0
    assert list(ended_restarts(ended, ended)) == []


def test_pods_that_were_not_reached_count_when_the_run_ends() -> None:
    running, closed = status("Done"), status("Done", run="Closed", skipped=2)

    assert newly_skipped(running, closed) == 2
    assert newly_skipped(closed, closed) == 0
    assert reasons(running, closed) == ["RestartSkipped"]
