"""The smallest resource, with fields replaced."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from llama_operator import api

MINIMAL: dict[str, Any] = {
    "apiVersion": api.API_VERSION,
    "kind": api.KIND,
    "metadata": {"name": "chat", "namespace": "default"},
    "spec": {"model": {"source": "pvc://models/model.gguf"}},
}


def manifest(changes: dict[str, Any] | None = None) -> dict[str, Any]:
    """The smallest resource with each dotted path set: `{"spec.kv.layout": "Unified"}`."""
    document = deepcopy(MINIMAL)
    for path, value in (changes or {}).items():
        *parents, last = path.split(".")
        node = document
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = value
    return document
