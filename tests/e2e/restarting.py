"""Restarts as a user asks for them and reads of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.e2e.deployment import Deployment, until

BY_HAND = "llama-operator.dev/restart"

PATIENCE = 2400.0
"""For a run. A container that a busy node has restarted by itself has its turn ten minutes later:
the kubelet would delay the next start."""


def restart_status(chat: Deployment) -> dict[str, Any]:
    found: dict[str, Any] = chat.read().get("status", {}).get("restart", {})
    return found


def last_restarts(chat: Deployment) -> dict[str, dict[str, Any]]:
    """The last restart of each pod, by the pod's name."""
    return {row["name"]: row.get("lastRestart", {}) for row in chat.read()["status"]["pods"]}


def wait_for_run(chat: Deployment, what: str, handled: str | None = None) -> None:
    """Until every pod had its turn in the run that was asked for."""

    def complete() -> bool:
        found = restart_status(chat)
        state = found.get("run", {}).get("state")
        asked = handled is None or found.get("handled") == handled
        assert not (asked and state == "Halted"), found
        return asked and state == "Complete"

    try:
        until(what, complete, PATIENCE)
    except BaseException:
        print(chat.read().get("status"))
        raise


def restart_by_hand(chat: Deployment, value: str) -> None:
    """Ask for a restart of every pod and wait until each had it."""
    chat.cluster.ok(
        "annotate", "llama", chat.name, f"{BY_HAND}={value}", "--overwrite", "-n", chat.namespace
    )
    wait_for_run(chat, f"every pod was restarted: {value}", value)


def schedule_soon(chat: Deployment, restart: dict[str, Any] | None = None, **spec: Any) -> None:
    """Give it a window that opens within two minutes, and that was seen before it does."""
    while True:
        opening = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(minutes=2)
        schedule = f"{opening.minute} {opening.hour} * * *"
        soon = {"schedule": schedule, "minUptime": "0s"} | (restart or {})
        chat.apply(restart=soon, **spec)

        def seen(schedule: str = schedule) -> Any:
            found = restart_status(chat)
            return found if found.get("observedSchedule", "").startswith(schedule) else None

        if until("the schedule was seen", seen)["nextTime"] == f"{opening:%Y-%m-%dT%H:%M:%SZ}":
            return
