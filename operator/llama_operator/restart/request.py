"""The annotation by which a running pod is asked for something; docs/architecture.md."""

from __future__ import annotations

import json
from typing import Any

from llama_operator.builders.volumes import REQUEST_VOLUME
from llama_operator.names import REQUEST_ANNOTATION
from llama_operator.pods import Pod

ACTIONS = {"Compact": "Compact", "Container": "Restart"}
"""The runtime's words for the methods that are a request."""


def request_text(run_id: str, method: str) -> str:
    """The annotation's value. Raises KeyError when the method is no request."""
    return json.dumps({"id": run_id, "action": ACTIONS[method]})


def request_id(pod: Pod) -> str | None:
    """The id of the request on the pod; empty when it cannot be read, None when there is none."""
    text = (pod.manifest["metadata"].get("annotations") or {}).get(REQUEST_ANNOTATION)
    if text is None:
        return None
    try:
        found: Any = json.loads(text)
    except ValueError:
        return ""
    return str(found.get("id", "")) if isinstance(found, dict) else ""


def takes_requests(pod: Pod) -> bool:
    """Whether the annotation reaches the container: older pods have no volume for it."""
    volumes = pod.manifest.get("spec", {}).get("volumes", [])
    return any(volume.get("name") == REQUEST_VOLUME for volume in volumes)
