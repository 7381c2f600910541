"""A small world without an API server: pods that live, fail and go, and a clock."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from llama_operator.actions import Action, Apply, Create, DeletePod
from llama_operator.decide import Decision, decide
from llama_operator.names import Manifest, pod_index
from llama_operator.observation import Observation
from tests.operator.objects import (
    IMAGE,
    NOW,
    failed,
    misaligned,
    ready,
    running,
    time_text,
    unschedulable,
)


@dataclass
class World:
    """What is there, and what the operator may not do to it."""

    resource: Manifest
    pods: dict[str, Manifest] = field(default_factory=dict)
    service: Manifest | None = None
    budget: Manifest | None = None
    now: datetime = NOW
    made: int = 0
    """Pods made so far."""

    def observe(self, default_image: str = IMAGE) -> Observation:
        return Observation(
            resource=copy.deepcopy(self.resource),
            pods=tuple(copy.deepcopy(pod) for _, pod in sorted(self.pods.items())),
            service=copy.deepcopy(self.service),
            pod_disruption_budget=copy.deepcopy(self.budget),
            default_image=default_image,
        )

    def step(self) -> Decision:
        """Decide once, carry it out, write the status."""
        decision = decide(self.observe(), self.now)
        for action in decision.actions:
            self.carry_out(action)
        if decision.status is not None:
            self.resource["status"] = decision.status.to_json()
        return decision

    def die_in_step(self, done: int) -> None:
        """Decide, carry out the first actions, and end there: no status is written."""
        for action in decide(self.observe(), self.now).actions[:done]:
            self.carry_out(action)

    def put(self, pod: Manifest) -> None:
        """A pod that is there already, whoever made it and whenever."""
        self.made += 1
        pod["metadata"]["uid"] = f"uid-{self.made}"
        self.pods[pod["metadata"]["name"]] = pod

    def carry_out(self, action: Action) -> None:
        if isinstance(action, DeletePod):
            self._delete(action)
        elif isinstance(action, Create):
            self._create(copy.deepcopy(action.manifest))
        elif isinstance(action, Apply):
            self._apply(action)
        else:
            raise AssertionError(f"{action} is for a world with restarts")

    @property
    def spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.resource["spec"]
        return spec

    @property
    def replicas(self) -> int:
        return int(self.spec.get("replicas", 1))

    @property
    def max_unavailable(self) -> int:
        return int(self.spec.get("rollout", {}).get("maxUnavailable", 1))

    def change(self, **spec: Any) -> None:
        """The user edits the spec."""
        before = copy.deepcopy(self.spec)
        self.spec.update(copy.deepcopy(spec))
        if self.spec != before:
            self.resource["metadata"]["generation"] += 1

    def unavailable(self) -> int:
        serving = [name for name, pod in self.pods.items() if self.serves(pod)]
        return self.replicas - sum(self.index(name) < self.replicas for name in serving)

    def serves(self, pod: Manifest) -> bool:
        conditions = pod["status"].get("conditions", [])
        return (
            pod["status"]["phase"] == "Running"
            and "deletionTimestamp" not in pod["metadata"]
            and any(item == {"type": "Ready", "status": "True"} for item in conditions)
        )

    def index(self, name: str) -> int:
        index = pod_index(self.resource["metadata"]["name"], name)
        assert index is not None
        return index

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    # What the kubelet and the scheduler do.

    def pod_ready(self, name: str) -> None:
        if self.alive(name):
            self.pods[name] = ready(self.pods[name])

    def pod_unready(self, name: str) -> None:
        if self.alive(name):
            self.pods[name] = running(self.pods[name])

    def pod_unschedulable(self, name: str) -> None:
        if self.alive(name) and "nodeName" not in self.pods[name]["spec"]:
            self.pods[name] = unschedulable(self.pods[name])

    def pod_refused(self, name: str, node: str = "node-a") -> None:
        if self.alive(name):
            created = self.pods[name]["metadata"]["creationTimestamp"]
            self.pods[name] = failed(self.pods[name], node=node, at=self.now)
            self.pods[name]["metadata"]["creationTimestamp"] = created

    def pod_misaligned(self, name: str, node: str = "node-a") -> None:
        if self.alive(name):
            self.pods[name] = misaligned(self.pods[name], node=node, at=self.now)

    def pod_drained(self, name: str) -> None:
        if "deletionTimestamp" in self.pods.get(name, {}).get("metadata", {}):
            self.pods[name]["status"]["phase"] = "Succeeded"

    def pod_gone(self, name: str) -> None:
        if "deletionTimestamp" in self.pods.get(name, {}).get("metadata", {}):
            del self.pods[name]

    def alive(self, name: str) -> bool:
        pod = self.pods.get(name)
        return (
            pod is not None
            and "deletionTimestamp" not in pod["metadata"]
            and pod["status"]["phase"] not in ("Failed", "Succeeded")
        )

    def _create(self, manifest: Manifest) -> None:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        if kind == "Service":
            assert self.service is None
            self.service = manifest
        elif kind == "PodDisruptionBudget":
            assert self.budget is None
            self.budget = manifest
        else:
            assert name not in self.pods, f"{name} exists already"
            assert self.index(name) < self.replicas, f"{name} is one too many"
            self.made += 1
            manifest["metadata"] |= {
                "uid": f"uid-{self.made}",
                "creationTimestamp": time_text(self.now),
            }
            manifest["status"] = {"phase": "Pending", "qosClass": "Guaranteed"}
            self.pods[name] = manifest

    def _delete(self, action: DeletePod) -> None:
        pod = self.pods[action.name]
        assert pod["metadata"]["uid"] == action.uid
        assert "deletionTimestamp" not in pod["metadata"], f"{action.name} is going already"
        if action.reason == "Replaced" and self.serves(pod):
            assert self.unavailable() < self.max_unavailable, f"{action.name} is one too many"
        if pod["status"]["phase"] in ("Failed", "Succeeded") or "nodeName" not in pod["spec"]:
            del self.pods[action.name]
        else:
            pod["metadata"]["deletionTimestamp"] = time_text(self.now)

    def _apply(self, action: Apply) -> None:
        manifest = copy.deepcopy(action.manifest)
        if manifest["kind"] == "Service":
            self.service = manifest
        elif manifest["kind"] == "PodDisruptionBudget":
            self.budget = manifest
        else:
            pod = self.pods[manifest["metadata"]["name"]]
            pod["metadata"]["labels"] |= manifest["metadata"]["labels"]
