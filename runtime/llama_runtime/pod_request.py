"""What the operator asks of this pod: an annotation, in a file that the kubelet keeps current.

docs/architecture.md, "Requests to a pod", has the format. The management port stays
read-only this way, and whoever may annotate pods may already delete them.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

LOOK_SECONDS = 0.5
LONGEST_REQUEST = 4096

State = Literal["Running", "Done", "Failed"]
Action = Callable[["Answer"], Awaitable[str]]

log = logging.getLogger(__name__)


class Unreadable(Exception):
    """The file has no request; the message says what it has, for its author."""

    def __init__(self, id: str | None, action: str | None, message: str) -> None:  # noqa: A002
        super().__init__(message)
        self.id = id
        self.action = action


class ActionFailed(Exception):
    """What was asked for could not be done; the message is for ``request.message``."""


@dataclass(frozen=True, slots=True)
class PodRequest:
    id: str
    action: str


@dataclass(frozen=True, slots=True)
class Answer:
    """``request`` of GET /status."""

    id: str | None
    action: str | None
    state: State
    message: str
    started_at: datetime
    finished_at: datetime | None = None

    def finished(self, state: State, message: str) -> Answer:
        return replace(self, state=state, message=message, finished_at=datetime.now(UTC))

    def as_dict(self) -> dict[str, object]:
        return {
            "id": self.id,
            "action": self.action,
            "state": self.state,
            "message": self.message,
            "startedAt": timestamp(self.started_at),
            "finishedAt": None if self.finished_at is None else timestamp(self.finished_at),
        }


def timestamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_KEYS = ("id", "action")


def parse(text: str, actions: frozenset[str]) -> PodRequest:
    """The request in the file. Raises Unreadable."""
    if len(text) > LONGEST_REQUEST:
        raise Unreadable(None, None, f"The request is longer than {LONGEST_REQUEST} characters.")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unreadable(None, None, f"The request is not JSON ({error}).") from error
    if not isinstance(found, dict):
        raise Unreadable(None, None, "The request is not a JSON object.")
    named = {key: found[key] if isinstance(found.get(key), str) else None for key in _KEYS}
    if not named["id"]:
        raise Unreadable(None, named["action"], 'The request has no "id" that is a string.')
    if named["action"] not in actions:
        known = " or ".join(sorted(actions))
        raise Unreadable(
            named["id"], named["action"], f'The request has no "action" that is {known}.'
        )
    return PodRequest(named["id"], named["action"])


class PodRequests:
    """Follows the file, does each id once, and keeps the latest answer.

    What is in the file at the first look is Done without being done: this container has
    just started, so its cache is empty and a restart is what it comes from.
    """

    def __init__(self, path: Path | None, actions: dict[str, Action]) -> None:
        self._path = path
        self._actions = actions
        self._text: str | None = None
        self._answers: dict[str, Answer] = {}
        self.answer: Answer | None = None

    async def follow(self) -> None:
        """Until cancelled; returns at once without a file."""
        if self._path is None:
            return
        self.look(is_first=True)
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.take(self.look())

    def look(self, *, is_first: bool = False) -> PodRequest | None:
        """What is to be done now, if the file has something new."""
        text = self._read()
        if text == self._text:
            return None
        self._text = text
        if not text.strip():
            return None
        now = datetime.now(UTC)
        try:
            request = parse(text, frozenset(self._actions))
        except Unreadable as error:
            log.error("The pod's request can't be read", extra={"detail": str(error)})
            self.answer = Answer(error.id, error.action, "Failed", str(error), now, now)
            return None
        if request.id in self._answers:
            self.answer = self._answers[request.id]
            return None
        if is_first:
            message = "It was there when this container started, which has just restarted."
            self._keep(Answer(request.id, request.action, "Done", message, now, now))
            return None
        return request

    async def take(self, request: PodRequest | None) -> None:
        """Do it and say what came of it."""
        if request is None:
            return
        log.info("The pod is asked", extra={"id": request.id, "action": request.action})
        answer = Answer(request.id, request.action, "Running", "It runs.", datetime.now(UTC))
        self._keep(answer)
        try:
            message = await self._actions[request.action](answer)
        except ActionFailed as error:
            self._keep(answer.finished("Failed", str(error)))
        except Exception as error:
            log.exception("What the pod was asked for failed")
            self._keep(answer.finished("Failed", f"It failed ({error}): the log has the trace."))
        else:
            self._keep(answer.finished("Done", message))

    def _read(self) -> str:
        assert self._path is not None
        try:
            return self._path.read_text(errors="replace")
        except OSError as error:
            # Without the annotation the kubelet writes an empty file; run by hand there is none.
            if not isinstance(error, FileNotFoundError):
                log.debug("Can't read %s: %s", self._path, error.strerror)
            return ""

    def _keep(self, answer: Answer) -> None:
        self.answer = answer
        if answer.id is not None:
            self._answers[answer.id] = answer
