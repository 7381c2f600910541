"""Remembers what the API server refused, so that it is not asked again all the time.

In memory only: a restarted operator asks once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from llama_operator.act import Refusal
from llama_operator.names import Key
from llama_operator.observation import Failure
from llama_operator.retry import backoff

SOON = timedelta(seconds=2)
"""Until something that goes by itself is looked for again; an event usually comes first."""


class Failures:
    """The refusals of every LlamaDeployment."""

    def __init__(self) -> None:
        self._failures: dict[Key, dict[str, Failure]] = {}

    def of(self, key: Key) -> Mapping[str, Failure]:
        """The refusals of one LlamaDeployment, by object."""
        return self._failures.get(key, {})

    def forget(self, key: Key) -> None:
        """The LlamaDeployment is gone."""
        self._failures.pop(key, None)

    def tried(
        self,
        key: Key,
        generation: int,
        tried: Iterable[str],
        refusals: Iterable[Refusal],
        now: datetime,
    ) -> None:
        """Objects were tried: those not refused are fine, the others are counted."""
        failures = self._failures.setdefault(key, {})
        before = {name: failures.pop(name, None) for name in tried}
        for refusal in refusals:
            last = before.get(refusal.object)
            repeated = last is not None and last.generation == generation
            count = last.count + 1 if last is not None and repeated else 1
            failures[refusal.object] = Failure(
                object=refusal.object,
                reason=refusal.reason,
                message=refusal.message,
                permanent=refusal.permanent,
                count=count,
                generation=generation,
                retry_at=now + (SOON if refusal.soon else backoff(count)),
                soon=refusal.soon,
            )
        if not failures:
            del self._failures[key]
