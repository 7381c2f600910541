"""Conversations through the Service while pods come and go."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.e2e.deployment import Deployment

SUBJECTS = ("sea", "sun", "moon", "forest", "river", "city", "winter", "bread")


@dataclass
class Tally:
    """Streams that ended as they should, and what went wrong with the others."""

    finished: int = 0
    failures: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, failure: str | None) -> None:
        with self._lock:
            if failure is None:
                self.finished += 1
            else:
                self.failures.append(failure)


@contextmanager
def conversations(deployment: Deployment, count: int = 8, *, retries: int = 0) -> Iterator[Tally]:
    """So many clients ask one streamed question after the other, each on a new connection.

    ``retries`` are the client's own, of requests that were refused; a stream that broke off is
    never asked for again. They stop at the end of the block, after the answers that they have
    begun.
    """
    tally, stop = Tally(), threading.Event()

    def converse(subject: str) -> None:
        while not stop.is_set():
            try:
                deployment.ask(
                    f"Write a story about the {subject}.", max_tokens=24, retries=retries
                )
            except BaseException as error:  # A stream that broke off fails an assertion.
                tally.note(f"{type(error).__name__}: {error}")
            else:
                tally.note(None)

    threads = [
        threading.Thread(target=converse, args=(SUBJECTS[index % len(SUBJECTS)],))
        for index in range(count)
    ]
    for thread in threads:
        thread.start()
    try:
        yield tally
    finally:
        stop.set()
        for thread in threads:
            thread.join()
