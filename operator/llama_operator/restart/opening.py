"""When a run begins: at a window of the schedule, or by hand. Never by itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from llama_operator.api import RestartRun, RestartStatus
from llama_operator.names import RESTART_ANNOTATION
from llama_operator.restart.schedule import Schedule, Unusable, read_schedule
from llama_operator.restart.situation import Situation, seconds


@dataclass(frozen=True, slots=True)
class Timetable:
    """The schedule as it is seen now. `problem`: why it cannot be used."""

    schedule: Schedule | None = None
    problem: Unusable | None = None


def read_timetable(situation: Situation) -> Timetable:
    """The schedule of the spec; an empty timetable when it has none."""
    restart = situation.restart
    if restart.schedule is None:
        return Timetable()
    try:
        return Timetable(
            read_schedule(
                restart.schedule,
                restart.time_zone,
                window=seconds(restart.window),
                jitter=seconds(restart.jitter),
                uid=situation.resource.metadata.uid,
            )
        )
    except Unusable as problem:
        return Timetable(problem=problem)


def observe(situation: Situation, timetable: Timetable, now: datetime) -> RestartStatus:
    """The memory, brought up to the schedule of the spec.

    A schedule that is new or was edited counts from now, so it restarts nothing at once.
    """
    memory = situation.memory
    if timetable.schedule is None:
        return memory.model_copy(
            update={"next_time": None, "observed_schedule": None, "observed_time": None}
        )
    text = _text(situation)
    if memory.observed_schedule == text and memory.observed_time is not None:
        return memory
    moment = now.replace(microsecond=0)
    return memory.model_copy(update={"observed_schedule": text, "observed_time": moment})


def with_next_time(memory: RestartStatus, timetable: Timetable, now: datetime) -> RestartStatus:
    """The memory with the time at which the next window opens."""
    if timetable.schedule is None:
        return memory
    since = _since(memory, now)
    return memory.model_copy(
        update={"next_time": timetable.schedule.next_opening(max(now, since), since)}
    )


def is_of_another_schedule(situation: Situation, memory: RestartStatus) -> bool:
    """The schedule was edited or removed since the run of a window began."""
    return situation.memory.observed_schedule != memory.observed_schedule


def open_run(
    situation: Situation, memory: RestartStatus, timetable: Timetable, now: datetime
) -> RestartStatus:
    """The memory with a new run, where one is due and none is under way."""
    memory, by_hand = _by_hand(situation, memory, now)
    if memory.run is not None and memory.run.state == "Running":
        return memory
    if by_hand is not None:
        value = situation.resource.metadata.annotations[RESTART_ANNOTATION]
        return memory.model_copy(
            update={"handled": value, "run": by_hand, "skipped": None, "message": None}
        )
    due = None
    if timetable.schedule is not None:
        due = timetable.schedule.due(now, _since(memory, now))
    if due is None:
        return memory
    slot, closing = due
    run = RestartRun(
        id=f"{slot:%Y%m%dT%H%M%SZ}",
        cause="Schedule",
        open_time=now.replace(microsecond=0),
        close_time=closing,
        state="Running",
    )
    return memory.model_copy(
        update={"last_schedule_time": slot, "run": run, "skipped": None, "message": None}
    )


def _by_hand(
    situation: Situation, memory: RestartStatus, now: datetime
) -> tuple[RestartStatus, RestartRun | None]:
    """The run that the user asks for by a value of the annotation that is new."""
    value = situation.resource.metadata.annotations.get(RESTART_ANNOTATION)
    if value is None or situation.previous.is_unseen:
        # Taken away, so that the same value is new the next time; or made with the resource.
        return memory.model_copy(update={"handled": value}), None
    if value == memory.handled:
        return memory, None
    moment = now.replace(microsecond=0)
    run = RestartRun(
        id=f"{moment:%Y%m%dT%H%M%SZ}-hand",
        cause="Hand",
        open_time=moment,
        close_time=moment + situation.window,
        state="Running",
    )
    return memory, run


def _since(memory: RestartStatus, now: datetime) -> datetime:
    """Slots up to this moment do not count any more."""
    moments = (memory.observed_time, memory.last_schedule_time)
    return max((moment for moment in moments if moment is not None), default=now)


def _text(situation: Situation) -> str:
    restart = situation.restart
    return f"{restart.schedule} {restart.time_zone} {restart.window} {restart.jitter}"
