"""From what was observed to what is done next. Pure: no clock, no client, no chance.

`decide` looks at the present state only. It can be called any number of times, in any
state, and asks for nothing when nothing is to be done.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from pydantic import ValidationError

from llama_operator.actions import Action, Apply, Create, DeletePod, object_name
from llama_operator.alignment import NOT_ALIGNED
from llama_operator.api import LlamaDeployment, LlamaDeploymentStatus
from llama_operator.builders import build_pod, build_pod_disruption_budget, build_service
from llama_operator.builders.metadata import owned_labels
from llama_operator.mending import mend
from llama_operator.names import INDEX_LABEL, Manifest, pod_name
from llama_operator.observation import Failure, Observation
from llama_operator.overdue import overdue
from llama_operator.pods import Pod, read_pod
from llama_operator.problems import Problem, pod_problem
from llama_operator.refusals import refusal_problems
from llama_operator.restart.plan import restarts
from llama_operator.restart.situation import REFUSED, Outcome, Situation
from llama_operator.retry import AVOID, waiting
from llama_operator.rollout import Fleet, NewPod, Plan, plan
from llama_operator.runtime_status import Reading, Unknown
from llama_operator.status.build import build_status, invalid_status
from llama_operator.status.look import Look
from llama_operator.subset import contains
from llama_operator.template_hash import template_hash
from llama_operator.unschedulable import unschedulable


@dataclass(frozen=True, slots=True)
class Decision:
    """Actions to take now, the status as it is, and when to look again without an event.

    A status of None means that there is nobody to tell.
    """

    actions: tuple[Action, ...] = ()
    status: LlamaDeploymentStatus | None = None
    wake_at: datetime | None = None


def decide(observation: Observation, now: datetime) -> Decision:
    """The next step for one LlamaDeployment."""
    metadata = observation.resource["metadata"]
    if metadata.get("deletionTimestamp") is not None:
        return Decision()
    previous = previous_status(observation.resource)
    try:
        resource = _read(observation.resource)
        return _decide(observation, resource, previous, now)
    except (ValidationError, ValueError) as error:
        message = (
            f"The operator cannot read spec: {_first_error(error)}. "
            "Correct it; running pods stay as they are."
        )
        generation = metadata.get("generation", 0)
        return Decision(status=invalid_status(metadata["name"], generation, previous, message, now))


def previous_status(resource: Manifest) -> LlamaDeploymentStatus:
    """The status that was written last; an empty one when it cannot be read."""
    try:
        return LlamaDeploymentStatus.model_validate(resource.get("status") or {})
    except ValidationError:
        return LlamaDeploymentStatus()


def _read(manifest: Manifest) -> LlamaDeployment:
    return LlamaDeployment.from_json(
        {name: value for name, value in manifest.items() if name != "status"}
    )


def _decide(
    observation: Observation,
    resource: LlamaDeployment,
    previous: LlamaDeploymentStatus,
    now: datetime,
) -> Decision:
    name = resource.metadata.name
    pods = tuple(
        pod for manifest in observation.pods if (pod := read_pod(name, manifest)) is not None
    )
    fleet = Fleet(
        replicas=resource.spec.replicas,
        template_hash=template_hash(resource.spec),
        max_unavailable=resource.spec.rollout.max_unavailable,
        pods=pods,
        told={
            row.uid: row.retry.count
            for row in previous.pods
            if row.uid is not None and row.retry is not None and row.retry.reason == NOT_ALIGNED
        },
    )
    failures = {
        failed: failure
        for failed, failure in observation.failures.items()
        if failure.generation == resource.metadata.generation
    }
    image = _image(observation, resource, previous, fleet)
    build_pod(resource, 0, image=image)  # A spec that makes no pod must not delete one either.
    readings = {pod.uid: observation.reading(pod.uid) for pod in pods if pod.running}
    restarted = restarts(
        Situation(resource, previous, fleet, readings, failures, observation.slot_free), now
    )
    rolled = _as_rolled(fleet, resource, restarted)
    planned = plan(rolled, _absent(resource, previous, fleet, failures, now), now)
    services, wake = _services(observation, resource, failures, now)
    late, late_at = _late(fleet, now)
    look = Look(
        resource=resource,
        previous=previous,
        fleet=fleet,
        image=image,
        readings=readings,
        problems=_problems(observation, resource, previous, fleet, failures, late),
        failures=failures,
        update_waits=not rolled.may_roll,
        restart=restarted.status,
        restart_findings=restarted.findings,
        last_restarts=restarted.last_restarts,
    )
    return Decision(
        actions=(
            *services,
            *_labels(resource, fleet, failures, now),
            *_pods(resource, planned, image),
            *restarted.actions,
        ),
        status=build_status(look, now),
        wake_at=min(
            (moment for moment in (planned.wake_at, wake, late_at, restarted.wake_at) if moment),
            default=None,
        ),
    )


def _as_rolled(fleet: Fleet, resource: LlamaDeployment, restarted: Outcome) -> Fleet:
    """The fleet for a rollout: a pod that is being restarted counts as away."""
    waits = resource.spec.rollout.update_policy == "Window" and not restarted.window_open
    pods = tuple(
        replace(pod, ready=pod.ready and pod.name not in restarted.busy) for pod in fleet.pods
    )
    return replace(fleet, pods=pods, may_roll=not waits)


def _image(
    observation: Observation,
    resource: LlamaDeployment,
    previous: LlamaDeploymentStatus,
    fleet: Fleet,
) -> str:
    """The runtime image. The operator's default is taken once and kept until the template
    changes, so an upgrade of the operator neither replaces pods nor mixes images."""
    if resource.spec.image is not None:
        return resource.spec.image
    if previous.runtime_image and previous.observed_generation == resource.metadata.generation:
        return previous.runtime_image
    for pod in fleet.wanted():
        if not fleet.outdated(pod) and pod.image:
            return pod.image
    return observation.default_image


def _absent(
    resource: LlamaDeployment,
    previous: LlamaDeploymentStatus,
    fleet: Fleet,
    failures: dict[str, Failure],
    now: datetime,
) -> dict[int, tuple[datetime, NewPod]]:
    """When and how pods that do not exist may be made, where that is not at once and afresh."""
    unchanged = previous.observed_generation == resource.metadata.generation
    retries = {row.name: row.retry for row in previous.pods if row.retry is not None and unchanged}
    result = {}
    for index in set(range(fleet.replicas)) - set(fleet.by_index()):
        name = pod_name(resource.metadata.name, index)
        if (failure := failures.get(f"Pod {name}")) is not None:
            result[index] = (failure.retry_at, NewPod(index))
        elif (retry := retries.get(name)) is not None:
            avoided = {node.name: node.until for node in retry.avoided_nodes}
            if not avoided and retry.node:
                avoided = {retry.node: retry.next_time + AVOID}
            avoided = {node: until for node, until in avoided.items() if until > now}
            result[index] = (retry.next_time, NewPod(index, retry.count, avoided))
    return result


def _pods(resource: LlamaDeployment, planned: Plan, image: str) -> list[Action]:
    deletions = [
        DeletePod(
            resource.metadata.namespace,
            deletion.pod.name,
            deletion.pod.uid,
            deletion.reason,
            deletion.message,
        )
        for deletion in planned.delete
    ]
    creations = [
        Create(
            build_pod(
                resource,
                new.index,
                image=image,
                attempt=new.attempt,
                avoided_nodes=new.avoided_nodes,
            )
        )
        for new in planned.create
    ]
    return [*deletions, *creations]


def _services(
    observation: Observation,
    resource: LlamaDeployment,
    failures: dict[str, Failure],
    now: datetime,
) -> tuple[list[Action], datetime | None]:
    """The Service and the PodDisruptionBudget: made when absent, mended when edited."""
    actions: list[Action] = []
    wake: list[datetime] = []
    for wanted, live in (
        (build_service(resource), observation.service),
        (build_pod_disruption_budget(resource), observation.pod_disruption_budget),
    ):
        repair = Create(wanted) if live is None else mend(live, wanted)
        if repair is None or (live is not None and _going(live)):
            continue
        failure = failures.get(object_name(wanted))
        if failure is not None and waiting(failure.retry_at, now):
            wake.append(failure.retry_at)
        else:
            actions.append(repair)
    return actions, min(wake, default=None)


def _going(live: Manifest) -> bool:
    return live["metadata"].get("deletionTimestamp") is not None


def _labels(
    resource: LlamaDeployment, fleet: Fleet, failures: dict[str, Failure], now: datetime
) -> list[Action]:
    """Pods whose labels were edited get ours back: the Service selects by them."""
    actions: list[Action] = []
    for pod in fleet.pods:
        asked = {} if fleet.outdated(pod) else resource.spec.pod_labels
        labels = {**asked, **owned_labels(resource.metadata.name), INDEX_LABEL: str(pod.index)}
        metadata = pod.manifest["metadata"]
        if pod.terminating or contains(metadata.get("labels"), labels):
            continue
        failure = failures.get(f"Pod {pod.name}")
        if failure is not None and waiting(failure.retry_at, now):
            continue
        manifest = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": pod.name,
                "namespace": metadata["namespace"],
                "uid": pod.uid,
                "labels": labels,
            },
        }
        actions.append(Apply(manifest, "its labels were changed"))
    return actions


def _problems(
    observation: Observation,
    resource: LlamaDeployment,
    previous: LlamaDeploymentStatus,
    fleet: Fleet,
    failures: dict[str, Failure],
    late: dict[str, Problem],
) -> tuple[Problem, ...]:
    refused = [
        Problem(failure.reason, failure.message, failure.permanent)
        for name, failure in sorted(failures.items())
        if not failure.soon and not name.startswith(REFUSED)
    ]
    refusals = dict(refusal_problems(resource, previous, fleet))
    broken = (
        unschedulable(resource, pod)
        or pod_problem(resource, pod, _reading(observation, pod))
        or late.get(pod.name)
        for pod in sorted(fleet.wanted(), key=lambda pod: (fleet.outdated(pod), pod.index))
        if pod.name not in refusals
    )
    return (*refused, *refusals.values(), *(problem for problem in broken if problem is not None))


def _late(fleet: Fleet, now: datetime) -> tuple[dict[str, Problem], datetime | None]:
    """Pods that take too long, and when the next one does."""
    late: dict[str, Problem] = {}
    wake: list[datetime] = []
    for pod in fleet.wanted():
        if (awaited := overdue(pod)) is None:
            continue
        when, problem = awaited
        if when > now:
            wake.append(when)
        else:
            late[pod.name] = problem
    return late, min(wake, default=None)


def _reading(observation: Observation, pod: Pod) -> Reading:
    return observation.reading(pod.uid) if pod.running else Unknown.NOT_ASKED


def _first_error(error: ValueError) -> str:
    """`spec.kv.layout: Input should be …` of a validation error, else its text."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        return f"{where}: {first['msg']}" if where else first["msg"]
    return str(error).rstrip(".")
