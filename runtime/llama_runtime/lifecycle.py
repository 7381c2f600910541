"""The states of the process and what may follow what; no clock, no I/O.

Starting → Loading → Serving → Draining
              ↑↓
            Failed (the model can't be used: tried again when its file changes)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

State = Literal["Starting", "Loading", "Serving", "Draining", "Failed"]

# A step of a large model on few CPUs takes tens of seconds; a stuck one never ends.
STUCK_AFTER_SECONDS = 300.0

RETRY_AFTER_SECONDS = {"Starting": 5, "Loading": 5, "Failed": 30, "Draining": 1, "Serving": 1}


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """Where the process is. Frozen: other threads read one whole value.

    progress goes from 0 to 1; ``loaded_once`` stays true whatever comes later.
    ``refusing`` is the second half of Draining: requests are no longer taken.
    """

    state: State = "Starting"
    reason: str | None = None
    message: str = "The process is starting."
    progress: float = 0.0
    load_seconds: float | None = None
    loaded_once: bool = False
    refusing: bool = False

    def loading(self, progress: float = 0.0) -> Lifecycle:
        """A drain that began meanwhile is not undone."""
        if self.state == "Draining":
            return self
        message = f"The model is loading, {progress:.0%} done: wait."
        return replace(self, state="Loading", reason=None, message=message, progress=progress)

    def serving(self, load_seconds: float) -> Lifecycle:
        if self.state == "Draining":
            return self
        return replace(
            self,
            state="Serving",
            reason=None,
            message="The model is served.",
            progress=1.0,
            load_seconds=load_seconds,
            loaded_once=True,
        )

    def failed(self, reason: str, message: str) -> Lifecycle:
        if self.state == "Draining":
            return self
        return replace(self, state="Failed", reason=reason, message=message, progress=0.0)

    def draining(self, reason: str = "Terminating") -> Lifecycle:
        return replace(
            self,
            state="Draining",
            reason=reason,
            message="The process was told to stop: it finishes what runs, then exits.",
        )

    def refuse(self) -> Lifecycle:
        """The time for endpoints to go is over: new requests are refused from now on."""
        return replace(self, refusing=True)

    @property
    def accepts(self) -> bool:
        """Whether a request may go to the engine; shortly also while Draining."""
        return self.state == "Serving" or (
            self.state == "Draining" and self.loaded_once and not self.refusing
        )

    @property
    def ready(self) -> bool:
        return self.state == "Serving"

    @property
    def retry_after(self) -> int:
        """Seconds, for a request that is refused now."""
        return RETRY_AFTER_SECONDS[self.state]


def is_stuck(heartbeat_age: float | None) -> bool:
    """Whether the engine thread hangs; None: there is none, or it said nothing yet."""
    return heartbeat_age is not None and heartbeat_age > STUCK_AFTER_SECONDS
