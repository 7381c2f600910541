"""How a Service or PodDisruptionBudget that was edited gets back what we set.

Server-side apply gives back every field that is ours and leaves the others alone, and that is
not always enough: a port whose number was changed stays in the list as somebody else's, and a
second name `http` is refused; a `minAvailable` that came in place of `maxUnavailable` forbids it.
Such rivals are taken away by a merge patch. Other ports and fields stay as they are.
"""

from __future__ import annotations

from typing import Any

from llama_operator.actions import Apply, Oust
from llama_operator.names import Manifest
from llama_operator.subset import contains

WHY = "its fields were changed"


def mend(live: Manifest, wanted: Manifest) -> Apply | Oust | None:
    """What gives the live object back what we set; None when nothing is missing."""
    selector = wanted["spec"]["selector"]
    if contains(live, wanted) and live["spec"].get("selector") == selector:
        return None
    rivals = _ports(live["spec"], wanted["spec"]) | _budget(live["spec"], wanted["spec"])
    return Oust(wanted, _identity(live) | {"spec": rivals}, WHY) if rivals else Apply(wanted, WHY)


def _ports(live: Manifest, wanted: Manifest) -> Manifest:
    """Our ports and those of others that take neither their name nor their number."""
    ours = wanted.get("ports", [])
    names = {port["name"] for port in ours}
    numbers = {_number(port) for port in ours}
    present = live.get("ports") or []
    if not any(port.get("name") in names and _number(port) not in numbers for port in present):
        return {}
    by_name = {port.get("name"): port for port in present}
    kept = [
        port for port in present if port.get("name") not in names and _number(port) not in numbers
    ]
    return {"ports": [*({**by_name.get(port["name"], {}), **port} for port in ours), *kept]}


def _number(port: Manifest) -> tuple[int, str]:
    """By which the API server tells ports apart."""
    return port["port"], port.get("protocol", "TCP")


def _budget(live: Manifest, wanted: Manifest) -> Manifest:
    if "maxUnavailable" not in wanted or live.get("minAvailable") is None:
        return {}
    return {"minAvailable": None, "maxUnavailable": wanted["maxUnavailable"]}


def _identity(live: Manifest) -> dict[str, Any]:
    """The state that was looked at; a newer one refuses the patch and is looked at first."""
    metadata = live["metadata"]
    return {
        "metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
    }
