"""The values of the chart, typed: values.yaml, its schema and its table come from here."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Name = Annotated[str, Field(max_length=253, pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$")]
Namespace = Annotated[str, Field(max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
Quantities = dict[str, str | int | float]


class Part(BaseModel):
    """A part of the values; a name that it does not have is refused."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        use_attribute_docstrings=True,
    )


class Image(Part):
    """The operator's image."""

    repository: Annotated[str, Field(min_length=1)] = "llama-operator"
    """Where the image is, without its tag."""

    tag: str = ""
    """Tag of the image; the chart's appVersion when empty."""

    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    """When the image is pulled."""


class PullSecret(Part):
    """A Secret for pulling images."""

    name: Name


class Crds(Part):
    """The CustomResourceDefinition."""

    install: bool = True
    """Install and upgrade the CRD with the chart. With false, apply crds/ yourself."""

    keep: bool = True
    """Keep the CRD, and with it every LlamaDeployment, when the chart is uninstalled."""


class ServiceAccount(Part):
    """The operator's ServiceAccount."""

    create: bool = True
    """Make one."""

    name: Name = ""
    """Its name; the release's full name when empty and made, `default` when not made."""

    annotations: dict[str, str] = Field(default_factory=dict)
    """Its annotations."""


class ResourceRequirements(Part):
    """What the operator's container asks for."""

    requests: Quantities = Field(default_factory=lambda: Quantities(cpu="50m", memory="128Mi"))
    """Requests."""

    limits: Quantities = Field(default_factory=lambda: Quantities(memory="512Mi"))
    """Limits."""


class Toleration(Part):
    """A taint that the operator tolerates."""

    key: str | None = None
    operator: Literal["Equal", "Exists"] | None = None
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: int | None = None


class Monitor(Part):
    """An object for the Prometheus operator."""

    enabled: bool = False
    """Make it. Needs the CRDs of the Prometheus operator."""

    interval: Annotated[str, Field(pattern=r"^[0-9]+(ms|s|m|h)$")] = "30s"
    """How often Prometheus asks."""

    labels: dict[str, str] = Field(default_factory=dict)
    """Labels by which your Prometheus finds it."""


class Metrics(Part):
    """Metrics for Prometheus."""

    service_monitor: Monitor = Monitor()
    """ServiceMonitor for the operator."""

    pod_monitor: Monitor = Monitor()
    """PodMonitor for the pods that serve models."""


class Values(Part):
    """Every value of the chart."""

    image: Image = Image()
    """The operator's image."""

    runtime_image: str = ""
    """Image of the pods that serve models, unless a resource names its own;
    `llama-runtime` with the chart's appVersion when empty."""

    replicas: Annotated[int, Field(ge=1, le=5)] = 1
    """Operators. One acts, by a Lease; each of the others takes over when it is gone."""

    image_pull_secrets: list[PullSecret] = Field(default_factory=list)
    """Secrets with which the operator's image is pulled, as `[{name: …}]`."""

    watch_namespaces: list[Namespace] = Field(default_factory=list)
    """Namespaces to serve, with a Role in each; all of them, with a ClusterRole, when empty."""

    max_concurrent_restarts: Annotated[int, Field(ge=1, le=1000)] = 1
    """LlamaDeployments of which a pod may be restarted at the same time, in the whole cluster."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """How much the operator logs."""

    extra_args: list[str] = Field(default_factory=list)
    """More flags of the operator, such as `--workers=32`; `--help` lists them."""

    crds: Crds = Crds()
    """The CustomResourceDefinition."""

    service_account: ServiceAccount = ServiceAccount()
    """The operator's ServiceAccount."""

    resources: ResourceRequirements = ResourceRequirements()
    """What the operator's container asks for."""

    metrics: Metrics = Metrics()
    """Metrics for Prometheus."""

    node_selector: dict[str, str] = Field(default_factory=dict)
    """Labels that the operator's node must have."""

    tolerations: list[Toleration] = Field(default_factory=list)
    """Taints that the operator tolerates."""

    affinity: dict[str, Any] = Field(default_factory=dict)
    """Affinity of the operator's pod."""

    priority_class_name: Name = ""
    """Priority class of the operator's pod."""

    pod_annotations: dict[str, str] = Field(default_factory=dict)
    """More annotations for the operator's pod."""

    pod_labels: dict[str, str] = Field(default_factory=dict)
    """More labels for the operator's pod."""

    name_override: Annotated[str, Field(max_length=50)] = ""
    """Instead of the chart's name in labels and names."""

    fullname_override: Annotated[str, Field(max_length=53)] = ""
    """Instead of the release's full name in names."""
