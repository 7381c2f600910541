"""The Service in front of the pods."""

from __future__ import annotations

from llama_operator.api import LlamaDeployment
from llama_operator.builders.metadata import owned_metadata
from llama_operator.names import Manifest, selector_labels


def build_service(resource: LlamaDeployment) -> Manifest:
    """Port 80 of the resource's name leads to the API of every Ready pod."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": owned_metadata(resource, resource.metadata.name),
        "spec": {
            "selector": selector_labels(resource.metadata.name),
            "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http"}],
        },
    }
