"""The restarts of one look: what to ask of which pod now, and what to write. Pure.

A pod's turn is written to `status.restart.run` first. Only a turn that was read back from
there is acted on, so an operator that is killed at any point goes on from it: a request
carries the run's id and an eviction the pod's UID, so doing either again does nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from llama_operator.actions import Annotate, Evict
from llama_operator.api import LastRestart, RestartedPod, RestartRun, RestartStatus
from llama_operator.names import REQUEST_ANNOTATION
from llama_operator.restart.afterwards import measure_rows
from llama_operator.restart.choice import all_others_ready, next_turn
from llama_operator.restart.conditions import findings
from llama_operator.restart.opening import (
    Timetable,
    is_of_another_schedule,
    observe,
    open_run,
    read_timetable,
    with_next_time,
)
from llama_operator.restart.progress import advance, is_taken
from llama_operator.restart.request import request_id, request_text
from llama_operator.restart.situation import Outcome, Situation, Wait
from llama_operator.restart.summary import tell_run

SLOT_AGAIN = timedelta(seconds=15)
"""Nobody tells a deployment that another one has finished."""


def restarts(situation: Situation, now: datetime) -> Outcome:
    """The next step of the restarts of one deployment."""
    timetable = read_timetable(situation)
    memory = observe(situation, timetable, now)
    work = _Work(situation, timetable, now)
    if memory.run is not None:
        edited = memory.run.cause == "Schedule" and is_of_another_schedule(situation, memory)
        memory = work.go_on(memory, memory.run, edited=edited)
        memory = work.choose(memory)
    opened = open_run(situation, memory, timetable, now)
    if opened.run is not memory.run:
        opened = work.choose(opened)
    memory = opened
    memory = with_next_time(memory, timetable, now)
    return work.outcome(memory)


def holds_a_slot(status: RestartStatus | None) -> bool:
    """Whether a pod is being restarted, as the cluster-wide limit counts."""
    run = status.run if status is not None else None
    return run is not None and any(entry.state == "Asked" for entry in run.pods)


@dataclass(slots=True)
class _Work:
    """The steps of one look, and what they leave behind."""

    situation: Situation
    timetable: Timetable
    now: datetime
    actions: list[Annotate | Evict] = field(default_factory=list)
    finished: dict[str, LastRestart] = field(default_factory=dict)
    wake: list[datetime] = field(default_factory=list)
    waiting: str = ""

    def go_on(self, memory: RestartStatus, run: RestartRun, *, edited: bool) -> RestartStatus:
        """The run after what has happened to its pods, closed when its time is over."""
        entries, lost = [], False
        for entry in run.pods:
            if entry.state != "Asked":
                entries.append(entry)
                continue
            pod = self.situation.pod(entry.name)
            if not is_taken(entry, pod, run.id):
                if self._may_still_ask(run, edited=edited):
                    self._ask(run, entry)
                    entries.append(entry)
                continue
            step = advance(
                entry,
                pod,
                self.situation.reading(pod),
                run.id,
                self.situation.drain,
                self.now,
            )
            entries.append(step.entry)
            lost = lost or step.lost
            if step.finished is not None:
                self.finished[entry.name] = step.finished
            if step.deadline is not None:
                self.wake.append(step.deadline)
        run = run.model_copy(update={"pods": tuple(entries)})
        if run.state != "Running":
            return memory.model_copy(update={"run": run})
        if lost:
            return self._end(memory, run, "Halted")
        if any(entry.state == "Asked" for entry in entries):
            return memory.model_copy(update={"run": run})
        if edited or self.now >= run.close_time:
            return self._end(memory, run, "Closed")
        return memory.model_copy(update={"run": run})

    def choose(self, memory: RestartStatus) -> RestartStatus:
        """The run with the next pod's turn, complete when every pod has had its own."""
        run = memory.run
        if run is None or run.state != "Running":
            return memory
        while not any(entry.state == "Asked" for entry in run.pods):
            turn = self._next(run)
            if turn is None:
                return self._end(memory, run, "Complete")
            if isinstance(turn, Wait):
                self.waiting = turn.message
                self.wake.append(min(turn.until or run.close_time, run.close_time))
                break
            run = run.model_copy(update={"pods": (*run.pods, turn)})
            if turn.state == "Asked":
                self.wake.append(self.now)  # Once it is written, it is done.
        return memory.model_copy(update={"run": run})

    def outcome(self, memory: RestartStatus) -> Outcome:
        situation, run = self.situation, memory.run
        rows = {
            row.name: row.last_restart
            for row in situation.previous.pods
            if row.last_restart is not None
        }
        rows = measure_rows(
            rows | self.finished,
            {pod.name: pod for pod in situation.fleet.wanted()},
            situation.readings,
            self.now,
        )
        self.actions += self._stale_requests(run)
        if run is not None and (run.state != "Closed" or self.waiting):
            message = tell_run(run, situation.restart.when, rows, self.waiting)
            memory = memory.model_copy(update={"message": message})
        if memory.next_time is not None:
            self.wake.append(memory.next_time)
        window_open = (
            run is not None
            and run.open_time <= self.now < run.close_time
            and situation.held is None
        )
        if run is not None and window_open:
            self.wake.append(run.close_time)
        return Outcome(
            status=memory if memory != RestartStatus() else None,
            actions=tuple(self.actions),
            findings=findings(situation, self.timetable, memory, window_open=window_open),
            last_restarts=rows,
            busy=frozenset(
                entry.name for entry in (run.pods if run else ()) if entry.state == "Asked"
            ),
            window_open=window_open,
            wake_at=min(self.wake, default=None),
        )

    def _next(self, run: RestartRun) -> RestartedPod | Wait | None:
        turn = next_turn(self.situation, run, self.now)
        if not isinstance(turn, RestartedPod) or turn.state != "Asked":
            return turn
        if (held := self.situation.held) is not None:
            return Wait(held)
        if (wait := all_others_ready(self.situation, self.now)) is not None:
            return wait
        if not self.situation.slot_free:
            message = "Waiting for restarts of other deployments: see maxConcurrentRestarts."
            return Wait(message, self.now + SLOT_AGAIN)
        return turn

    def _may_still_ask(self, run: RestartRun, *, edited: bool) -> bool:
        """A turn that was written, and not begun, is given up when things have changed."""
        if edited or self.now >= run.close_time or run.state != "Running":
            return False
        return self.situation.held is None and (all_others_ready(self.situation, self.now) is None)

    def _ask(self, run: RestartRun, entry: RestartedPod) -> None:
        refusal = self.situation.refusal(entry.name)
        if refusal is not None:
            self.waiting = f"Pod {entry.name} cannot be restarted yet: {refusal.message}"
            if refusal.retry_at > self.now:
                self.wake.append(min(refusal.retry_at, run.close_time))
                return
        metadata = self.situation.resource.metadata
        method = entry.method or "Pod"
        if method == "Pod":
            self.actions.append(Evict(metadata.namespace, entry.name, entry.uid))
        else:
            text = request_text(run.id, method)
            self.actions.append(
                Annotate(metadata.namespace, entry.name, entry.uid, {REQUEST_ANNOTATION: text})
            )

    def _stale_requests(self, run: RestartRun | None) -> Iterable[Annotate]:
        """Requests that were answered, or that nobody waits for any more.

        An answer is written first: a request that is gone would be made again.
        """
        namespace = self.situation.resource.metadata.namespace
        awaited = _awaited(run)
        written = _awaited(self.situation.memory.run)
        for pod in self.situation.fleet.pods:
            asked = request_id(pod)
            request = (pod.uid, asked)
            if asked is None or pod.terminating or request in awaited:
                continue
            refusal = self.situation.refusal(pod.name)
            if request in written:
                self.wake.append(self.now)
            elif refusal is not None and refusal.retry_at > self.now:
                self.wake.append(refusal.retry_at)
            else:
                yield Annotate(namespace, pod.name, pod.uid, {REQUEST_ANNOTATION: None})

    def _end(self, memory: RestartStatus, run: RestartRun, state: str) -> RestartStatus:
        had = {entry.name for entry in run.pods}
        names = [pod.name for pod in self.situation.fleet.wanted()]
        missed = [name for name in names if name not in had]
        skipped = self.situation.fleet.replicas - (len(names) - len(missed))
        if state == "Closed" and missed:
            self.waiting = f"Not reached: {', '.join(missed)}. {self._why_missed(run, missed)}"
        update: dict[str, object] = {
            "run": run.model_copy(update={"state": state}),
            "skipped": max(skipped, 0),
        }
        if state == "Complete":
            update["last_completion_time"] = self.now.replace(microsecond=0)
        return memory.model_copy(update=update)

    def _why_missed(self, run: RestartRun, missed: list[str]) -> str:
        for name in missed:
            if (refusal := self.situation.refusal(name)) is not None:
                return f"Pod {name} could not be restarted: {refusal.message}"
        turn = self._next(run)
        return turn.message if isinstance(turn, Wait) else ""


def _awaited(run: RestartRun | None) -> set[tuple[str, str | None]]:
    """UIDs of the pods whose answer is waited for, with the request's id."""
    entries = run.pods if run is not None else ()
    return {
        (entry.uid, run.id if run else None)
        for entry in entries
        if entry.state == "Asked" and entry.method != "Pod"
    }
