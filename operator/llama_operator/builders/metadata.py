"""Labels and the owner of everything that a LlamaDeployment owns."""

from __future__ import annotations

from llama_operator.api import API_VERSION, KIND, LlamaDeployment
from llama_operator.names import (
    COMPONENT_LABEL,
    DEPLOYMENT_LABEL,
    FIELD_MANAGER,
    MANAGED_BY_LABEL,
    NAME_LABEL,
    Manifest,
)


def owned_labels(deployment: str) -> dict[str, str]:
    """Labels of every owned object. None is copied from the resource: see docs/architecture.md."""
    return {
        NAME_LABEL: "llama-runtime",
        COMPONENT_LABEL: "runtime",
        MANAGED_BY_LABEL: FIELD_MANAGER,
        DEPLOYMENT_LABEL: deployment,
    }


def owned_metadata(resource: LlamaDeployment, name: str) -> Manifest:
    """Metadata with a controller reference that never blocks the deletion of the owner."""
    return {
        "name": name,
        "namespace": resource.metadata.namespace,
        "labels": owned_labels(resource.metadata.name),
        "ownerReferences": [
            {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "name": resource.metadata.name,
                "uid": resource.metadata.uid,
                "controller": True,
                "blockOwnerDeletion": False,
            }
        ],
    }
