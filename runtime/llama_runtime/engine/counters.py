"""Numbers that the engine counts as it goes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """Written by the engine's thread alone."""

    prompt_tokens: int = 0
    predicted_tokens: int = 0
    decode_failures: int = 0
    context_rebuilds: int = 0
    steps: int = 0
    step_seconds: float = 0.0
    decode_seconds: float = 0.0
    finished: int = 0
    failed: int = 0
    cancelled: int = 0
    service_seconds: float = 1.0
    """How long a request runs, the newer ones weighing more; for Retry-After."""

    def served(self, seconds: float) -> None:
        self.finished += 1
        self.service_seconds += 0.1 * (seconds - self.service_seconds)
