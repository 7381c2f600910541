"""What a condition about all pods says while not every runtime has spoken."""

from __future__ import annotations

from llama_operator.status.conditions import Finding, carry
from llama_operator.status.look import Look


def undecided(look: Look, kind: str) -> Finding | None:
    """What to say while a runtime is silent or was not asked yet."""
    if look.unasked():
        return carry(look.previous.conditions, kind)
    if silent := look.silent():
        names = ", ".join(pod.name for pod in silent)
        message = f"No answer from {names} at :8081/status; look at the pod's log."
        return Finding(kind, "Unknown", "NoAnswer", message)
    return None


def all_known(look: Look, finding: Finding) -> Finding | None:
    """The finding, once every runtime was asked."""
    return finding if look.known() and not look.unasked() else None
