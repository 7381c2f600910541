"""`status` of a LlamaDeployment: what the operator saw. Written by the operator alone."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field

from llama_operator.api.base import Resource, Timestamp

UNSEEN_STATUS: Final = {"observedGeneration": -1}
"""What the API server makes of an object that has no status yet: the CRD's default. kstatus
would take one without observedGeneration and conditions for Current."""


class StatusPart(Resource):
    """A part of the status. Fields of a newer version are ignored when it is read."""

    model_config = ConfigDict(extra="ignore")


class Condition(StatusPart):
    """One aspect of the state, as metav1.Condition."""

    type: Annotated[str, Field(max_length=316)]
    """Ready, Reconciling, Stalled, ModelLoaded, NUMAAligned, GPUOffloaded, RestartScheduled,
    RestartHalted or UpdatePending."""

    status: Literal["True", "False", "Unknown"]
    """Whether it is so."""

    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """Generation of the resource that this is about."""

    last_transition_time: Timestamp
    """When status changed last."""

    reason: Annotated[str, Field(min_length=1, max_length=1024)]
    """Why, in one CamelCase word."""

    message: Annotated[str, Field(max_length=32_768)] = ""
    """Why, in a sentence that says what to do next."""


class KvStatus(StatusPart):
    """The KV cache of one pod."""

    context_tokens: int | None = None
    """Cells of the cache."""

    bytes_estimated: int | None = None
    """Size of the cache computed from the model's shape."""

    bytes_actual: int | None = None
    """Size of the cache that the pods report."""

    span_ratio: float | None = None
    """The worst of the pods: part of the cells under attention that hold nothing."""


class Measurement(StatusPart):
    """What a pod measured of itself."""

    span_ratio: float | None = None
    """Part of the cells under attention that hold nothing."""

    decode_tokens_per_second: float | None = None
    """Decode speed of late steps."""

    decode_slowdown: float | None = None
    """Loss of decode speed against the pod's own baseline at the same depth."""

    memory_bytes: int | None = None
    """Resident memory, and that of the GPU where it is known."""

    memory_growth: float | None = None
    """Growth of memory since the model was loaded."""

    cpus: str | None = None
    """CPUs that the container was given, as `4-7`."""

    mems: str | None = None
    """NUMA nodes whose memory it was given, as `1`."""


class LastRestart(StatusPart):
    """The pod's last restart."""

    time: Timestamp
    """When it began."""

    reason: str
    """Why: Scheduled, ByHand, SpanRatio, DecodeSlowdown, MemoryGrowth or Misplaced."""

    method: str
    """Compact, Container or Pod."""

    before: Measurement | None = None
    """What the pod measured before."""

    after: Measurement | None = None
    """What it measured afterwards."""

    downtime_seconds: float | None = None
    """How long the pod was not Ready; left out where that was not seen."""

    message: str | None = None
    """Why, with the numbers, and what was gained, in sentences."""


class RestartedPod(StatusPart):
    """What a run has to do with one pod."""

    name: Annotated[str, Field(max_length=253)]
    """Name of the pod."""

    uid: str
    """UID of the pod that was there when its turn came."""

    state: Literal["Asked", "Done", "Failed", "LeftAlone"]
    """`Asked`: it is being restarted. `Done`: it is back. `Failed`: it is not, or refused.
    `LeftAlone`: there was no reason to restart it."""

    method: str | None = None
    """Compact, Container or Pod."""

    reason: str | None = None
    """Why, in one CamelCase word."""

    message: str | None = None
    """Why, with the numbers."""

    restarts: int | None = None
    """Starts of the container before, by the kubelet's count."""

    start_time: Timestamp | None = None
    """When the request or the eviction was seen to have been taken."""

    unready_time: Timestamp | None = None
    """When the pod stopped being Ready."""

    before: Measurement | None = None
    """What the pod measured before."""


class RestartRun(StatusPart):
    """One pass over the pods. It is written before anything is done to a pod, so that an
    operator that is killed goes on and restarts none twice."""

    id: Annotated[str, Field(max_length=64)]
    """The window's moment in the schedule, or that of the request by hand."""

    cause: Literal["Schedule", "Hand"]
    """What asked for it."""

    open_time: Timestamp
    """When it began."""

    close_time: Timestamp
    """No restart starts afterwards."""

    state: Literal["Running", "Complete", "Closed", "Halted"]
    """`Complete`: every pod had its turn. `Closed`: the window closed before. `Halted`: a pod
    did not come back."""

    pods: Annotated[
        tuple[RestartedPod, ...],
        Field(
            max_length=1000,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        ),
    ] = ()
    """The pods that had their turn."""


class RestartStatus(StatusPart):
    """The restarts."""

    next_time: Timestamp | None = None
    """When the next window opens, jitter included."""

    last_schedule_time: Timestamp | None = None
    """The moment of the schedule whose window opened last."""

    last_completion_time: Timestamp | None = None
    """When every pod of a run had had its turn."""

    skipped: int | None = None
    """Pods that the last run did not reach."""

    message: str | None = None
    """What the last run did or waits for, in a sentence."""

    observed_schedule: str | None = None
    """Schedule, time zone, window and jitter from which nextTime was computed."""

    observed_time: Timestamp | None = None
    """When that schedule was first seen. Windows before it do not count."""

    handled: str | None = None
    """The value of the annotation `llama-operator.dev/restart` that was acted on."""

    run: RestartRun | None = None
    """The run that is under way, or the last one."""


class AvoidedNode(StatusPart):
    """A node that is not tried for a time."""

    name: Annotated[str, Field(max_length=253)]
    """Name of the node."""

    until: Timestamp
    """When it may be tried again."""


class Retry(StatusPart):
    """The pod was refused and is tried again later."""

    count: int
    """Refusals in a row."""

    next_time: Timestamp
    """When the next try may be."""

    reason: str | None = None
    """The kubelet's reason, such as TopologyAffinityError; NUMANotAligned when the runtime found
    itself misaligned on the node."""

    node: str | None = None
    """The node that refused."""

    avoided_nodes: Annotated[
        tuple[AvoidedNode, ...],
        Field(
            max_length=100,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        ),
    ] = ()
    """The nodes that the next try keeps away from."""


class PodStatus(StatusPart):
    """One pod."""

    name: Annotated[str, Field(max_length=253)]
    """Name of the pod."""

    uid: str | None = None
    """UID of the pod."""

    node: str | None = None
    """Node on which it runs."""

    ready: bool = False
    """Whether it serves."""

    numa_node: int | None = None
    """NUMA node that holds its CPUs."""

    numa_verdict: str | None = None
    """What the runtime found: Aligned, CpusSpanNodes, MemsSpanNodes, GpuRemote, MemoryRemote,
    SingleNode or Unknown."""

    span_ratio: float | None = None
    """Part of the cells under attention that hold nothing."""

    sequences: int | None = None
    """Sequences that ran when this was written."""

    retry: Retry | None = None
    """Set while a refused pod waits for its next try."""

    last_restart: LastRestart | None = None
    """The pod's last restart."""


class LlamaDeploymentStatus(StatusPart):
    """What the operator saw last."""

    observed_generation: int | None = None
    """Generation of the resource that the operator has acted on."""

    replicas: int | None = None
    """Pods that exist."""

    ready_replicas: int | None = None
    """Pods that serve."""

    updated_replicas: int | None = None
    """Pods made from the current spec."""

    ready: str | None = None
    """Pods that serve, of those asked for, as `1/2`."""

    selector: str | None = None
    """Label selector of the pods, for the scale subresource."""

    model: str | None = None
    """The model's id at /v1/models."""

    runtime_image: str | None = None
    """Image the pods run. An upgrade of the operator does not change it."""

    kv: KvStatus | None = None
    """The KV cache of one pod."""

    restart: RestartStatus | None = None
    """The scheduled restarts."""

    conditions: Annotated[
        tuple[Condition, ...],
        Field(
            max_length=32,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            },
        ),
    ] = ()
    """Ready, Reconciling and Stalled as kstatus reads them, and what else there is to say."""

    pods: Annotated[
        tuple[PodStatus, ...],
        Field(
            max_length=1000,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        ),
    ] = ()
    """One row for each pod."""

    @property
    def is_unseen(self) -> bool:
        """Whether no operator has written a status of the resource yet: it is new."""
        return self.observed_generation is None or self.observed_generation < 0
