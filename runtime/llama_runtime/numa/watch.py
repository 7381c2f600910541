"""The verdict while serving: pages move and a cpuset can change, so it is looked at again.

A change is shown when a second look some seconds later confirms it, and a share of local
pages around the limit does not go to and fro: once it was too low it has to be clearly
enough again (`LOCAL_AGAIN`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from llama_runtime.numa.verdict import LOCAL_RATIO, NumaReport

CONFIRM_SECONDS = 5.0
LOCAL_AGAIN = 0.97

log = logging.getLogger(__name__)


class NumaWatch:
    """Looks whenever it is asked; for one thread at a time."""

    def __init__(
        self,
        observe: Callable[[float], NumaReport],
        *,
        pause: Callable[[], None] = lambda: time.sleep(CONFIRM_SECONDS),
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`observe` takes the share of local pages from which memory counts as local."""
        self._observe = observe
        self._pause = pause
        self._now = now
        self._shown: NumaReport | None = None

    def look(self) -> NumaReport:
        """The report to show. Takes CONFIRM_SECONDS longer when something seems to have changed."""
        before = self._shown
        if before is None:
            self._shown = self._observe(LOCAL_RATIO)
            return self._shown
        report = self._read(before)
        if report.verdict != before.verdict:
            self._pause()
            first, report = report.verdict, self._read(before)
            if report.verdict == first:
                self._shown = self._changed(before, report)
                return self._shown
        if report.verdict == before.verdict:
            self._shown = report.after(before)
        return self._shown or report

    def _read(self, before: NumaReport) -> NumaReport:
        return self._observe(LOCAL_AGAIN if before.verdict == "MemoryRemote" else LOCAL_RATIO)

    def _changed(self, before: NumaReport, report: NumaReport) -> NumaReport:
        log.warning(
            "The NUMA verdict has changed while serving",
            extra={"verdict": report.verdict, "before": before.verdict, "detail": report.message},
        )
        changed_at = self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return report.after(
            replace(
                before,
                changes=before.changes + 1,
                changed_at=changed_at,
                previous_verdict=before.verdict,
            )
        )
