"""Numbers that the engine counts as it goes."""

from __future__ import annotations

from dataclasses import dataclass

_MANY = 16


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
    postponed: int = 0
    """Requests that went back to the queue for another client, before they had an answer."""
    prompt_speed: float = 0.0
    """Prompt tokens in a second of late steps with many of them."""
    service_seconds: float = 1.0
    """How long a request runs, the newer ones weighing more; for Retry-After."""

    def computed(self, prompt_tokens: int, seconds: float, *, scores: bool) -> None:
        """A step is done; one that ``scores`` says nothing of how fast prompts are."""
        self.prompt_tokens += prompt_tokens
        self.decode_seconds += seconds
        if prompt_tokens >= _MANY and seconds > 0 and not scores:
            speed = prompt_tokens / seconds
            self.prompt_speed += (0.2 if self.prompt_speed else 1.0) * (speed - self.prompt_speed)

    def served(self, seconds: float) -> None:
        self.finished += 1
        self.service_seconds += 0.1 * (seconds - self.service_seconds)
