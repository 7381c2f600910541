"""Affinity of a pod that was refused by nodes: the user's own, and not those nodes."""

from __future__ import annotations

from collections.abc import Collection
from copy import deepcopy

from llama_operator.names import Manifest

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def avoid_nodes(affinity: Manifest | None, nodes: Collection[str]) -> Manifest | None:
    """The affinity with every node excluded by name; the argument is left as it is.

    Node selector terms are alternatives, so each of them gets the exclusion. A field
    selector takes one value (core validation), so each node is a requirement.
    """
    if not nodes:
        return affinity
    result: Manifest = deepcopy(affinity) if affinity else {}
    node_affinity = result.setdefault("nodeAffinity", {})
    terms = node_affinity.setdefault(_REQUIRED, {}).setdefault("nodeSelectorTerms", [])
    if not terms:
        terms.append({})
    for term in terms:
        term.setdefault("matchFields", []).extend(
            {"key": "metadata.name", "operator": "NotIn", "values": [node]}
            for node in sorted(nodes)
        )
    return result
