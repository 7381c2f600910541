"""Labels, annotations and names that the operator writes; docs/architecture.md lists them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

Manifest = dict[str, Any]
"""A Kubernetes object as the API server gives and takes it."""

FIELD_MANAGER: Final = "llama-operator"
CONTAINER: Final = "runtime"

NAME_LABEL: Final = "app.kubernetes.io/name"
COMPONENT_LABEL: Final = "app.kubernetes.io/component"
MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
DEPLOYMENT_LABEL: Final = "llama-operator.dev/deployment"
INDEX_LABEL: Final = "llama-operator.dev/index"

TEMPLATE_HASH_ANNOTATION: Final = "llama-operator.dev/template-hash"
ATTEMPT_ANNOTATION: Final = "llama-operator.dev/attempt"
AVOIDED_NODES_ANNOTATION: Final = "llama-operator.dev/avoided-nodes"
REQUEST_ANNOTATION: Final = "llama-operator.dev/request"

RESTART_ANNOTATION: Final = "llama-operator.dev/restart"
"""On the LlamaDeployment, by the user: a value that is new asks for a restart of every pod."""
HOLD_ANNOTATION: Final = "llama-operator.dev/hold"
"""On the LlamaDeployment, by the user: `true` holds all restarts."""

OWNED_SELECTOR: Final = f"{MANAGED_BY_LABEL}={FIELD_MANAGER}"
"""Selects what any LlamaDeployment owns; the API server filters by it."""


class Key(NamedTuple):
    """A LlamaDeployment."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def pod_name(deployment: str, index: int) -> str:
    """The fixed name of a replica: creating one twice is impossible."""
    return f"{deployment}-{index}"


def pod_index(deployment: str, name: str) -> int | None:
    """The index in a pod's name; None when it is no name of this deployment's pods."""
    prefix, _, index = name.rpartition("-")
    if prefix != deployment or not index.isascii() or not index.isdigit():
        return None
    return int(index) if index == str(int(index)) else None


def selector_labels(deployment: str) -> dict[str, str]:
    """With the namespace, the pods of one deployment."""
    return {DEPLOYMENT_LABEL: deployment}


def selector(deployment: str) -> str:
    """`selector_labels` in the text form of `status.selector`."""
    return f"{DEPLOYMENT_LABEL}={deployment}"
