"""A verdict that changes while serving: reported once, and not for a moment's sake."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llama_runtime.numa import NumaReport, NumaWatch, Verdict
from llama_runtime.numa.verdict import judge
from tests.runtime.numa.conftest import patient
from tests.runtime.numa.test_verdict import observation

NOW = datetime(2026, 1, 1, 3, 0, tzinfo=UTC)


class Memory:
    """A container of node 1 whose share of local pages is set from outside."""

    def __init__(self, local: float) -> None:
        self.local = local
        self.cpus = {4, 5}
        self.looks = 0

    def observe(self, enough: float) -> NumaReport:
        self.looks += 1
        there = round(10**6 * self.local)
        seen = observation(cpus=self.cpus, pages={0: 10**6 - there, 1: there})
        return judge(seen, "Required", enough)

    def watch(self, *meanwhile: float) -> NumaWatch:
        """`meanwhile`: the shares before each second look."""
        shares = iter(meanwhile)

        def pause() -> None:
            self.local = next(shares, self.local)

        return NumaWatch(self.observe, pause=pause, now=lambda: NOW)


def test_the_first_look_is_shown_as_it_is() -> None:
    memory = Memory(0.5)
    report = memory.watch().look()
    assert report.verdict == "MemoryRemote"
    assert (report.changes, report.changed_at, memory.looks) == (0, None, 1)


def test_a_lasting_change_is_reported_with_what_was_before(
    caplog: pytest.LogCaptureFixture,
) -> None:
    memory = Memory(1.0)
    watch = memory.watch()
    watch.look()
    memory.cpus = {3, 4}
    report = watch.look()
    assert report.verdict == "CpusSpanNodes"
    assert (report.changes, report.previous_verdict) == (1, "Aligned")
    assert report.changed_at == "2026-01-01T03:00:00Z"
    assert report.message.endswith("It was Aligned until 2026-01-01T03:00:00Z.")
    assert report.as_dict()["changes"] == 1
    assert [record.message for record in caplog.records] == [
        "The NUMA verdict has changed while serving"
    ]


def test_the_history_stays_beside_new_numbers() -> None:
    memory = Memory(1.0)
    watch = memory.watch()
    watch.look()
    memory.local = 0.5
    watch.look()
    memory.local = 0.4
    report = watch.look()
    assert (report.verdict, report.local_ratio) == ("MemoryRemote", 0.4)
    assert (report.changes, report.previous_verdict) == (1, "Aligned")
    assert report.message.count("It was Aligned until") == 1


def test_what_a_second_look_does_not_confirm_is_not_reported() -> None:
    memory = Memory(1.0)
    watch = memory.watch(0.99)
    watch.look()
    memory.local = 0.5
    report = watch.look()
    assert (report.verdict, report.changes, report.local_ratio) == ("Aligned", 0, 0.99)


def test_two_looks_that_disagree_change_nothing() -> None:
    reports = iter(
        judge(seen, "None")
        for seen in (
            observation(pages={1: 100}),
            observation(cpus={3, 4}, pages={1: 100}),
            observation(gpus=(0,), pages={1: 100}),
        )
    )
    watch = NumaWatch(lambda enough: next(reports), pause=lambda: None)
    watch.look()
    assert watch.look().verdict == "Aligned"


def test_a_share_around_the_limit_does_not_go_to_and_fro() -> None:
    memory = Memory(1.0)
    watch = memory.watch()
    watch.look()
    shown: list[Verdict] = []
    for share in (0.951, 0.949, 0.951, 0.949, 0.96, 0.94, 0.969, 0.971, 0.951):
        memory.local = share
        shown.append(watch.look().verdict)
    assert shown == ["Aligned"] + ["MemoryRemote"] * 6 + ["Aligned"] * 2


def changes(verdicts: Iterable[str]) -> int:
    seen = list(verdicts)
    return sum(a != b for a, b in pairwise(seen))


@patient
@given(st.lists(st.floats(0.952, 0.968), max_size=30), st.sampled_from([0.5, 1.0]))
def test_between_the_limits_nothing_ever_changes(shares: list[float], start: float) -> None:
    memory = Memory(start)
    watch = memory.watch()
    first = watch.look().verdict
    for share in shares:
        memory.local = share
        assert watch.look().verdict == first


@patient
@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_every_change_is_counted_once(shares: list[float]) -> None:
    memory = Memory(shares[0])
    watch = memory.watch()
    reports = []
    for share in shares:
        memory.local = share
        reports.append(watch.look())
    assert reports[-1].changes == changes(report.verdict for report in reports)
