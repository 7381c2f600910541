"""A world in which pods are restarted: a kubelet, a scripted runtime, and an operator that can
be killed at any point, because all that it knows is in the status and on the pods."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from llama_operator.actions import Action, Annotate, DeletePod, Evict
from llama_operator.decide import decide
from llama_operator.names import REQUEST_ANNOTATION, Manifest
from llama_operator.observation import Failure, Observation
from llama_operator.runtime_status import Reading, Unknown
from tests.operator.objects import IMAGE, a_runtime, time_text
from tests.operator.world import World

HOLD = "llama-operator.dev/hold"
BY_HAND = "llama-operator.dev/restart"
DRAIN_SECONDS = 8


class Killed(Exception):
    """The operator, by SIGKILL."""


@dataclass
class RestartWorld(World):
    """`World` with containers that restart, and a disruption budget that may forbid."""

    spans: dict[str, float] = field(default_factory=dict)
    """What the pods measure, by name."""

    budget_forbids: bool = False
    slot_free: bool = True
    silent: set[str] = field(default_factory=set)
    """Pods that do not come back."""

    restarted: dict[str, list[str]] = field(default_factory=dict)
    """Ids of the runs in which a pod was restarted, by its name; `evicted` where it was."""

    failures: dict[str, Failure] = field(default_factory=dict)
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Answers of the runtimes to requests, by the pod's UID."""

    statuses: int = 0
    """Writes of the status."""

    kill_after: int | None = None
    """Writes of any kind until the operator is killed."""

    # The operator.

    def observe(self, default_image: str = IMAGE) -> Observation:
        seen = super().observe(default_image)
        readings = {pod["metadata"]["uid"]: self.reading(pod) for pod in self.pods.values()}
        return Observation(
            resource=seen.resource,
            pods=seen.pods,
            service=seen.service,
            pod_disruption_budget=seen.pod_disruption_budget,
            default_image=default_image,
            readings=readings,
            failures=dict(self.failures),
            slot_free=self.slot_free,
        )

    def look(self) -> datetime | None:
        """What the reconciler does: act until nothing is to be done, then write the status."""
        for _ in range(20):
            decision = decide(self.observe(), self.now)
            for action in decision.actions:
                self._written()
                self.carry_out(action)
            if decision.actions:
                continue
            assert decision.status is not None
            status = decision.status.to_json()
            if status != self.resource.get("status"):
                self._written()
                self.statuses += 1
                self.resource["status"] = status
                continue
            return decision.wake_at
        raise AssertionError(f"It does not stop acting: {decision.actions}")

    def look_and_die(self, writes: int) -> None:
        """The operator is killed before its write with that number."""
        self.kill_after = writes
        try:
            self.look()
        except Killed:
            self.failures.clear()
        finally:
            self.kill_after = None

    def _written(self) -> None:
        if self.kill_after is not None:
            if self.kill_after == 0:
                raise Killed
            self.kill_after -= 1

    def carry_out(self, action: Action) -> None:
        if isinstance(action, Evict):
            self._evict(action)
        elif isinstance(action, Annotate):
            self._annotate(action)
        else:
            if isinstance(action, DeletePod):
                self.answers.pop(action.uid, None)
            super().carry_out(action)

    def _evict(self, action: Evict) -> None:
        pod = self.pods[action.name]
        assert pod["metadata"]["uid"] == action.uid
        self._may_restart(action.name)
        if self.budget_forbids:
            self.failures[action.object] = Failure(
                object=action.object,
                reason="Disruption",
                message="Cannot evict pod as it would violate the pod's disruption budget.",
                permanent=False,
                count=1,
                generation=self.resource["metadata"]["generation"],
                retry_at=self.now + timedelta(seconds=10),
            )
            return
        self.failures.pop(action.object, None)
        self._note(action.name)
        pod["metadata"]["deletionTimestamp"] = time_text(self.now + timedelta(seconds=30))
        pod["metadata"]["deletionGracePeriodSeconds"] = 30

    def _annotate(self, action: Annotate) -> None:
        pod = self.pods[action.name]
        assert pod["metadata"]["uid"] == action.uid
        annotations = pod["metadata"]["annotations"]
        text = action.annotations[REQUEST_ANNOTATION]
        if text is None:
            del annotations[REQUEST_ANNOTATION]
            return
        assert annotations.get(REQUEST_ANNOTATION) != text
        self._may_restart(action.name)
        self._note(action.name)
        annotations[REQUEST_ANNOTATION] = text

    def _may_restart(self, name: str) -> None:
        assert self.unavailable() == 0, f"{name} is one too many"
        assert not self.resource["spec"].get("restart", {}).get("suspend")
        assert self.resource["metadata"].get("annotations", {}).get(HOLD) != "true"
        run = self.run
        assert run["state"] == "Running"
        assert time_text(self.now) < run["closeTime"]

    def _note(self, name: str) -> None:
        runs = self.restarted.setdefault(name, [])
        assert self.run["id"] not in runs, f"{name} is restarted twice in {self.run['id']}"
        runs.append(self.run["id"])

    @property
    def restart_status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.resource.get("status", {}).get("restart", {})
        return found

    @property
    def run(self) -> dict[str, Any]:
        found: dict[str, Any] = self.restart_status.get("run", {})
        return found

    def row(self, name: str) -> dict[str, Any]:
        rows: list[dict[str, Any]] = self.resource["status"]["pods"]
        return next(row for row in rows if row["name"] == name)

    def annotate(self, name: str, value: str | None) -> None:
        annotations = self.resource["metadata"].setdefault("annotations", {})
        if value is None:
            annotations.pop(name, None)
        else:
            annotations[name] = value

    # The kubelet and the runtime.

    def reading(self, pod: Manifest) -> Reading:
        if not self.serves(pod):
            return Unknown.NOT_ASKED
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        span = self.spans.get(name, 0.0)
        started = pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
        return a_runtime(
            startedAt=started,
            kv={"spanRatio": span, "decode": {"tokensPerSecond": 20 * (1 - span)}},
            memory={"rssBytes": 1 << 30, "growth": 0.0},
            request=self.answers.get(uid),
        )

    def tick(self, seconds: float = 0) -> None:
        """Let time pass and everything that waits for the kubelet go one step."""
        self.pass_time(seconds)
        for name in list(self.pods):
            self._tick(name)

    def _tick(self, name: str) -> None:
        pod = self.pods[name]
        if "deletionTimestamp" in pod["metadata"]:
            del self.pods[name]
            return
        container = pod["status"].get("containerStatuses", [{}])[0]
        request = json.loads(pod["metadata"]["annotations"].get(REQUEST_ANNOTATION, "{}"))
        answered = self.answers.get(pod["metadata"]["uid"], {}).get("id") == request.get("id")
        if pod["status"]["phase"] == "Pending":
            self._start(pod, restarts=0)
        elif not self.serves(pod):
            if name in self.silent:
                return
            if container.get("draining"):
                self._start(pod, restarts=container["restartCount"] + 1)
                self.spans[name] = 0.0
            else:
                self._set_ready(pod, "True")
        elif request and not answered:
            answer = {"id": request["id"], "action": request["action"], "state": "Done"}
            self.answers[pod["metadata"]["uid"]] = answer
            if request["action"] == "Restart":
                self._set_ready(pod, "False")
                container["draining"] = True
            else:
                self.spans[name] = 0.0

    def _start(self, pod: Manifest, *, restarts: int) -> None:
        pod["spec"]["nodeName"] = "node-a"
        pod["status"].update(
            phase="Running",
            podIP="10.0.0.1",
            containerStatuses=[
                {
                    "name": "runtime",
                    "restartCount": restarts,
                    "state": {"running": {"startedAt": time_text(self.now)}},
                }
            ],
        )
        self._set_ready(pod, "False")

    def _set_ready(self, pod: Manifest, status: str) -> None:
        moment = time_text(self.now)
        pod["status"]["conditions"] = [
            {"type": "Ready", "status": status, "lastTransitionTime": moment}
        ]

    def serves(self, pod: Manifest) -> bool:
        return (
            pod["status"]["phase"] == "Running"
            and "deletionTimestamp" not in pod["metadata"]
            and any(item["status"] == "True" for item in pod["status"].get("conditions", []))
        )

    def bring_up(self) -> None:
        """Everything is there and has been Ready for a while."""
        for _ in range(6):
            self.look()
            self.tick(30)
        assert self.unavailable() == 0

    def pass_by(self, seconds: float, *, step: float = 15) -> None:
        """Looks and kubelet for so long, as in a quiet cluster."""
        end = self.now + timedelta(seconds=seconds)
        while self.now < end:
            self.look()
            self.tick(step)
        self.look()

    def copy(self) -> RestartWorld:
        return copy.deepcopy(self)
