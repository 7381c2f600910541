"""`spec` of a LlamaDeployment: what the user asks for.

Rules across fields are in `rules`, fields that this version does not serve yet
in `unsupported`; both are checked by the API server, so a spec that the
operator reads has passed them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from llama_operator.api.base import Duration, Quantity, Resource

KvType = Literal["f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"]
"""The types llama.cpp can store K and V in (common/arg.cpp, kv_cache_types)."""

Name = Annotated[str, Field(min_length=1, max_length=253)]
Labels = Annotated[
    dict[
        Annotated[str, Field(max_length=317)],
        Annotated[str, Field(max_length=63)],
    ],
    Field(max_length=64),
]
Annotations = Annotated[
    dict[
        Annotated[str, Field(max_length=317)],
        Annotated[str, Field(max_length=65536)],
    ],
    Field(max_length=64),
]


class LocalObjectReference(Resource):
    """An object in the resource's namespace."""

    name: Name
    """Name of the object."""


class SecretKeyReference(Resource):
    """A key of a Secret in the resource's namespace."""

    name: Name
    """Name of the Secret."""

    key: Annotated[str, Field(min_length=1, max_length=253)] = "api-key"
    """Key in the Secret's data."""


class Cache(Resource):
    """Volume that keeps the downloaded model."""

    size: Quantity | None = None
    """Size of the claim the operator makes."""

    storage_class_name: Name | None = None
    """Storage class of that claim; the cluster's default when left out."""

    access_mode: Literal["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"] = (
        "ReadWriteOnce"
    )
    """Access mode of that claim. More than one node needs ReadWriteMany."""

    claim_name: Name | None = None
    """An existing claim to use instead of making one."""


class Model(Resource):
    """The model to serve."""

    source: Annotated[str, Field(min_length=1, max_length=1024)]
    """Where the GGUF file is: `pvc://CLAIM/PATH`, a file on a claim in the same namespace.
    For a model in several files, the first of them."""

    sha256: Annotated[str, Field(max_length=64)] | None = None
    """SHA-256 of the file, 64 hexadecimal digits in lower case, checked before it is loaded."""

    alias: Annotated[str, Field(max_length=128)] | None = None
    """The model's id at /v1/models; the resource's name when left out."""

    credentials_secret_ref: LocalObjectReference | None = None
    """Secret with the credentials for the download."""

    cache: Cache | None = None
    """Volume that keeps the downloaded model."""


class Kv(Resource):
    """The KV cache: how many sequences it holds and how long each may be."""

    max_sequences: Annotated[int, Field(ge=1, le=256)] = 16
    """Sequences the cache holds (llama.cpp's n_seq_max): as many requests run at the same
    time, the others wait. llama.cpp allows 256."""

    context_per_sequence: Annotated[int, Field(ge=1, le=16_777_216)] = 4096
    """Tokens of one sequence, prompt and answer together. The cache has maxSequences times
    as many cells (llama.cpp's n_ctx)."""

    layout: Literal["Partitioned", "Unified"] = "Partitioned"
    """`Partitioned`: every sequence owns its part. `Unified`: one pool for all, in which a
    shared prefix is stored once."""

    total_context: Annotated[int, Field(ge=1, le=2_147_483_647)] | None = None
    """Cells of the pool, for layout Unified: fewer than maxSequences times
    contextPerSequence overcommits. That product when left out."""

    type_k: KvType = "f16"
    """Type in which K is stored."""

    type_v: KvType = "f16"
    """Type in which V is stored. A quantised one needs flash attention."""

    host_cache: Quantity = "0"
    """Memory for copies of sequences that are evicted from the cache, of which a later prompt
    brings back what it shares; it is part of resources.memory. 0 keeps none."""

    keep_over_restart: bool = True
    """Whether the hottest cached sequences are written to a volume of the pod when its container
    ends, and read when it starts again with the same model and the same cache. They do not
    outlive the pod."""


class Engine(Resource):
    """How llama.cpp computes."""

    gpu_layers: Annotated[int, Field(ge=-1, le=10_000)] = -1
    """Layers to put on the GPU; -1 puts all of them there. Without a GPU all stay on the CPU."""

    batch_size: Annotated[int, Field(ge=1, le=65_536)] = 512
    """Tokens of one step, prompts and answers together (llama.cpp's n_batch)."""

    micro_batch_size: Annotated[int, Field(ge=1, le=65_536)] = 512
    """Tokens computed at once within a step (llama.cpp's n_ubatch)."""

    flash_attention: Literal["Auto", "Enabled", "Disabled"] = "Auto"
    """Whether to use flash attention; `Auto` uses it where llama.cpp supports it."""

    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    """CPU threads. The pod's CPUs when left out."""

    split_mode: Literal["None", "Layer", "Row"] = "Layer"
    """How the model is divided among several GPUs."""

    tensor_split: (
        Annotated[
            tuple[Annotated[float, Field(ge=0, le=1_000_000)], ...],
            Field(min_length=1, max_length=64),
        ]
        | None
    ) = None
    """Share of the model for each GPU, one number for each. By free memory when left out."""


class Resources(Resource):
    """What a pod gets. Requests are equal to limits, so that the pod is Guaranteed; with
    numa.policy None the CPUs have no limit."""

    cpu: Quantity = "2"
    """CPUs. Pinning to a NUMA node needs a whole number."""

    memory: Quantity = "8Gi"
    """Memory. On a CPU pod the model's weights and the KV cache have to fit in it."""

    gpus: Annotated[int, Field(ge=0, le=64)] = 1
    """GPUs; 0 makes a pod that computes on the CPU."""

    gpu_resource_name: Annotated[str, Field(min_length=1, max_length=317)] = "nvidia.com/gpu"
    """The resource that the GPUs' device plugin offers."""


class Numa(Resource):
    """Pinning to a NUMA node."""

    policy: Literal["Preferred", "Required", "None"] = "Preferred"
    """`Preferred`: pin where the kubelet can, and say what came of it. `Required`: pin or do
    not serve; the model is then loaded without mmap and has to fit in resources.memory.
    `None`: do not look at NUMA."""


class Thresholds(Resource):
    """When a pod counts as fragmented: any of them is enough."""

    span_ratio: Annotated[float, Field(ge=0, le=1)] = 0.3
    """Part of the cells under attention that hold nothing."""

    decode_slowdown: Annotated[float, Field(ge=0, le=1)] = 0.2
    """Loss of decode speed against the pod's own baseline at the same depth."""

    memory_growth: Annotated[float, Field(ge=0, le=100)] = 0.3
    """Growth of memory since the model was loaded."""


class Restart(Resource):
    """Restarts in an off-peak window."""

    schedule: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    """When the window opens: a cron line of five fields, in timeZone. No restarts without it."""

    time_zone: Annotated[str, Field(min_length=1, max_length=64)] = "UTC"
    """IANA time zone of the schedule, such as Europe/Berlin."""

    window: Duration = "2h"
    """How long the window is open. No restart starts after it closes."""

    jitter: Duration = "0s"
    """Longest random delay of the window's opening; the same for one resource and window."""

    when: Literal["Always", "Fragmented"] = "Always"
    """`Always`: every pod. `Fragmented`: only pods over a threshold."""

    thresholds: Thresholds = Thresholds()
    """What counts as fragmented."""

    method: Literal["Auto", "Compact", "Container", "Pod"] = "Auto"
    """`Compact` packs the cache in place, `Container` restarts the container in its pod, `Pod`
    evicts the pod. `Auto` takes the cheapest that cures the reason."""

    min_uptime: Duration = "6h"
    """A pod that is younger is left alone."""

    suspend: bool = False
    """Hold all restarts."""


class Rollout(Resource):
    """How pods are replaced when the spec changes."""

    max_unavailable: Annotated[int, Field(ge=1, le=1000)] = 1
    """Pods that may be away at the same time while they are replaced. There is never a pod more
    than replicas."""

    drain_timeout: Duration = "5m"
    """How long a pod that stops may finish the answers it has begun."""

    update_policy: Literal["Immediate", "Window"] = "Immediate"
    """`Immediate`: replace pods as soon as the spec changes. `Window`: in the restart window."""


class Server(Resource):
    """The HTTP server in the pod."""

    queue_limit: Annotated[int, Field(ge=0, le=100_000)] = 64
    """Requests that may wait for a sequence; one more is answered with 429."""

    api_key_secret_ref: SecretKeyReference | None = None
    """Secret with the API keys that clients must send, one a line. Everyone may ask when left
    out. It is mounted into the pod; the operator does not read it."""


class Toleration(Resource):
    """A taint that the pods tolerate, as in a pod's spec."""

    key: Annotated[str, Field(max_length=317)] | None = None
    """Key of the taint; every key when left out, with operator Exists."""

    operator: Literal["Equal", "Exists"] | None = None
    """How key and value are compared; Equal when left out."""

    value: Annotated[str, Field(max_length=63)] | None = None
    """Value of the taint."""

    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint; every effect when left out."""

    toleration_seconds: int | None = None
    """How long a NoExecute taint is tolerated; for ever when left out."""


class LlamaDeploymentSpec(Resource):
    """What to serve and how. Only `model.source` must be given."""

    replicas: Annotated[int, Field(ge=0, le=1000)] = 1
    """Pods. 0 keeps the Service and stops serving."""

    model: Model
    """The model to serve."""

    kv: Kv = Kv()
    """The KV cache: how many sequences it holds and how long each may be."""

    engine: Engine = Engine()
    """How llama.cpp computes."""

    resources: Resources = Resources()
    """What a pod gets."""

    numa: Numa = Numa()
    """Pinning to a NUMA node."""

    restart: Restart | None = None
    """Restarts in an off-peak window. None when left out."""

    rollout: Rollout = Rollout()
    """How pods are replaced when the spec changes."""

    server: Server = Server()
    """The HTTP server in the pod."""

    image: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    """Runtime image; the operator's own choice when left out."""

    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """When the image is pulled; Kubernetes' own rule when left out."""

    image_pull_secrets: Annotated[
        tuple[LocalObjectReference, ...],
        Field(
            max_length=16,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        ),
    ] = ()
    """Secrets with which the image is pulled."""

    node_selector: Labels = Field(default_factory=dict)
    """Labels that a node must have."""

    tolerations: Annotated[
        tuple[Toleration, ...],
        Field(max_length=64, json_schema_extra={"x-kubernetes-list-type": "atomic"}),
    ] = ()
    """Taints that the pods tolerate."""

    affinity: (
        Annotated[dict[str, Any], Field(json_schema_extra={"core-type": "V1Affinity"})] | None
    ) = None
    """Affinity of the pods, as in a pod's spec."""

    priority_class_name: Name | None = None
    """Priority class of the pods."""

    runtime_class_name: Name | None = None
    """Runtime class of the pods."""

    scheduler_name: Name | None = None
    """Scheduler of the pods; the cluster's default when left out."""

    pod_labels: Labels = Field(default_factory=dict)
    """More labels for the pods. The operator's own cannot be set."""

    pod_annotations: Annotations = Field(default_factory=dict)
    """More annotations for the pods. The operator's own cannot be set."""
