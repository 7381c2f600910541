"""One replica: a pod with one container and no init containers.

Kubelet alignment (KEP-693, KEP-3570, KEP-1769) works for Guaranteed pods with whole
CPUs, and an init container can take the CPUs of another NUMA node
(kubernetes/kubernetes#123816), so nothing is added to this shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from llama_operator.api import LlamaDeployment, parse_duration
from llama_operator.builders.affinity import avoid_nodes
from llama_operator.builders.arguments import (
    DRAIN_DELAY_SECONDS,
    HTTP_PORT,
    MANAGEMENT_PORT,
    build_arguments,
)
from llama_operator.builders.metadata import owned_metadata
from llama_operator.builders.volumes import build_volumes
from llama_operator.names import (
    ATTEMPT_ANNOTATION,
    AVOIDED_NODES_ANNOTATION,
    CONTAINER,
    INDEX_LABEL,
    TEMPLATE_HASH_ANNOTATION,
    Manifest,
    pod_name,
)
from llama_operator.retry import format_avoided_nodes
from llama_operator.template_hash import template_hash

RUN_AS = 65532
EXIT_SECONDS = 30


def build_pod(
    resource: LlamaDeployment,
    index: int,
    *,
    image: str,
    attempt: int = 0,
    avoided_nodes: Mapping[str, datetime] | None = None,
) -> Manifest:
    """The pod NAME-INDEX.

    `attempt` counts the refusals before this pod, `avoided_nodes` are the nodes that
    refused and until when they are avoided.

    Raises ValueError when the spec cannot be turned into a pod.
    """
    avoided = avoided_nodes or {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(resource, index, attempt, avoided),
        "spec": _spec(resource, image, avoided),
    }


def _metadata(
    resource: LlamaDeployment, index: int, attempt: int, avoided: Mapping[str, datetime]
) -> Manifest:
    metadata = owned_metadata(resource, pod_name(resource.metadata.name, index))
    metadata["labels"] = {
        **resource.spec.pod_labels,
        **metadata["labels"],
        INDEX_LABEL: str(index),
    }
    annotations = {
        **resource.spec.pod_annotations,
        TEMPLATE_HASH_ANNOTATION: template_hash(resource.spec),
    }
    if attempt:
        annotations[ATTEMPT_ANNOTATION] = str(attempt)
    if avoided:
        annotations[AVOIDED_NODES_ANNOTATION] = format_avoided_nodes(avoided)
    metadata["annotations"] = annotations
    return metadata


def _spec(resource: LlamaDeployment, image: str, avoided: Mapping[str, datetime]) -> Manifest:
    spec = resource.spec
    volumes, mounts = build_volumes(resource)
    drain = parse_duration(spec.rollout.drain_timeout)
    pod: Manifest = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": drain + DRAIN_DELAY_SECONDS + EXIT_SECONDS,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": RUN_AS,
            "runAsGroup": RUN_AS,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(resource, image, mounts)],
        "volumes": volumes,
    }
    passed_through: Manifest = {
        "imagePullSecrets": [secret.to_json() for secret in spec.image_pull_secrets],
        "nodeSelector": spec.node_selector,
        "tolerations": [toleration.to_json() for toleration in spec.tolerations],
        "affinity": avoid_nodes(spec.affinity, avoided),
        "priorityClassName": spec.priority_class_name,
        "runtimeClassName": spec.runtime_class_name,
        "schedulerName": spec.scheduler_name,
    }
    return pod | {name: value for name, value in passed_through.items() if value}


def _container(resource: LlamaDeployment, image: str, mounts: list[Manifest]) -> Manifest:
    container: Manifest = {
        "name": CONTAINER,
        "image": image,
        "args": build_arguments(resource),
        "ports": [
            {"name": "http", "containerPort": HTTP_PORT, "protocol": "TCP"},
            {"name": "management", "containerPort": MANAGEMENT_PORT, "protocol": "TCP"},
        ],
        "resources": _resources(resource),
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": "management"},
            # Nothing listens while Python and llama.cpp's libraries come from a slow disk.
            "initialDelaySeconds": 300,
            "periodSeconds": 10,
            "timeoutSeconds": 5,
            "failureThreshold": 6,
        },
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": "management"},
            "periodSeconds": 2,
            "timeoutSeconds": 3,
            "failureThreshold": 3,
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "terminationMessagePolicy": "File",
        "volumeMounts": mounts,
    }
    if resource.spec.image_pull_policy is not None:
        container["imagePullPolicy"] = resource.spec.image_pull_policy
    return container


def _resources(resource: LlamaDeployment) -> Manifest:
    """Equal requests and limits make the pod Guaranteed; without NUMA the CPU has no limit."""
    wanted = resource.spec.resources
    cpu = {"cpu": str(wanted.cpu)}
    rest = {"memory": str(wanted.memory)}
    if wanted.gpus:
        rest[wanted.gpu_resource_name] = str(wanted.gpus)
    limits = rest if resource.spec.numa.policy == "None" else cpu | rest
    return {"requests": cpu | rest, "limits": limits}
