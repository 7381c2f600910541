"""Objects as the operator keeps them: without what it never reads, and each text once.

The JSON decoder makes every key of every object anew; four objects of a thousand resources
are 41 MB as they come and 13 MB as they are kept.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from llama_operator.names import Manifest

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""kubectl's own copy of the object inside the object."""

_OF_METADATA: Final = {"managedFields"}
_OF_POD: Final = {"tolerations"}
_OF_CONTAINER: Final = {
    "args",
    "env",
    "lifecycle",
    "livenessProbe",
    "ports",
    "readinessProbe",
    "securityContext",
    "startupProbe",
    "volumeMounts",
}


def compact(manifest: Manifest) -> Manifest:
    """A copy to keep. A pod loses what only the kubelet reads."""
    kept = {name: value for name, value in manifest.items() if name not in ("metadata", "spec")}
    kept["metadata"] = _metadata(manifest["metadata"])
    if "spec" in manifest:
        pod = manifest["kind"] == "Pod"
        kept["spec"] = _pod_spec(manifest["spec"]) if pod else manifest["spec"]
    shared: Manifest = _shared(kept)
    return shared


def _metadata(metadata: Manifest) -> Manifest:
    kept = _without(metadata, _OF_METADATA)
    if LAST_APPLIED in (kept.get("annotations") or {}):
        kept["annotations"] = _without(kept["annotations"], {LAST_APPLIED})
    return kept


def _pod_spec(spec: Manifest) -> Manifest:
    containers = [_without(container, _OF_CONTAINER) for container in spec.get("containers", [])]
    return {**_without(spec, _OF_POD), "containers": containers}


def _without(part: Manifest, names: set[str]) -> Manifest:
    return {name: value for name, value in part.items() if name not in names}


def _shared(value: Any) -> Any:
    """The same value whose equal texts are one object each; they go when nobody has them."""
    if isinstance(value, dict):
        return {sys.intern(name): _shared(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_shared(part) for part in value]
    return sys.intern(value) if type(value) is str else value
