"""The PodDisruptionBudget: a drained node takes one pod at a time."""

from __future__ import annotations

from llama_operator.api import LlamaDeployment
from llama_operator.builders.metadata import owned_metadata
from llama_operator.names import Manifest, selector_labels


def build_pod_disruption_budget(resource: LlamaDeployment) -> Manifest:
    """One pod may be away; a pod that does not serve never blocks a drain."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": owned_metadata(resource, resource.metadata.name),
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": selector_labels(resource.metadata.name)},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }
