"""The hash that decides whether a pod is replaced.

It is taken from what the spec asks of a pod and not from the pod that this version of
the operator makes of it: an upgrade of the operator, with another builder or another
default image, replaces no pod.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from llama_operator.api import LlamaDeploymentSpec, Resources, parse_quantity

NOT_OF_THE_POD: dict[str, Any] = {
    "replicas": True,
    "restart": True,
    "rollout": {"max_unavailable", "update_policy"},
}
"""The fields that change no pod."""


def template_hash(spec: LlamaDeploymentSpec) -> str:
    """Sixteen hexadecimal digits; equal for specs that ask for the same pod.

    Fields that have their default are left out, so a field that a later version adds
    changes no hash.
    """
    wanted = spec.model_dump(
        mode="json", by_alias=True, exclude_defaults=True, exclude=NOT_OF_THE_POD
    )
    wanted["resources"] = _resources(spec.resources)
    canonical = json.dumps(
        {name: value for name, value in wanted.items() if value != {}},
        sort_keys=True,
        separators=(",", ":"),
    )
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def _resources(resources: Resources) -> dict[str, Any]:
    """Quantities as numbers: `2` and `2000m` are the same CPUs."""
    result = resources.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    for name in ("cpu", "memory"):
        number = parse_quantity(getattr(resources, name))
        if number == parse_quantity(getattr(Resources(), name)):
            result.pop(name, None)
        else:
            result[name] = f"{number.normalize():f}"
    return result
