"""What it means that the API server does not take an object. Pure."""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class Denial(NamedTuple):
    """A refusal that trying again at once does not cure."""

    reason: str
    message: str
    permanent: bool = True
    soon: bool = False
    """What is in the way goes by itself, within seconds."""


class _Known(NamedTuple):
    reason: str
    pattern: str
    """In the answer of the admission plugin, for status 403."""

    advice: str
    permanent: bool = True
    soon: bool = False


_KNOWN: Final = (
    _Known("NamespaceTerminating", "because it is being terminated", "", permanent=False),
    _Known("QuotaExceeded", "exceeded quota", "Raise the quota or ask for less.", permanent=False),
    _Known(
        "QuotaExceeded",
        "failed quota: .*must specify",
        "Raise the quota or ask for less.",
        permanent=False,
    ),
    _Known(
        "LimitRangeExceeded",
        r"(maximum|minimum) \S+ usage per|max limit to request ratio per",
        "Change resources.cpu or resources.memory, or the namespace's LimitRange.",
    ),
    _Known(
        "PodSecurityViolation",
        "violates PodSecurity",
        "Let the namespace's label pod-security.kubernetes.io/enforce allow it, or take out of "
        "the spec what it names.",
    ),
    _Known(
        "PriorityClassMissing",
        "no PriorityClass with name",
        "Create it, or correct spec.priorityClassName.",
    ),
    _Known(
        "RuntimeClassMissing",
        r"RuntimeClass \S+ not found|pod rejected: RuntimeClass",
        "Create it, or correct spec.runtimeClassName.",
    ),
    _Known(
        "ServiceAccountMissing",
        "error looking up service account",
        "The namespace's service account default is made by the controller manager.",
        permanent=False,
        soon=True,
    ),
    _Known(
        "AdmissionDenied",
        r"admission webhook \S+ denied the request|ValidatingAdmissionPolicy",
        "Do what the policy asks, or exempt the LlamaDeployment's pods from it.",
    ),
)


def denial(name: str, status: int, said: str) -> Denial | None:
    """The denial of an object by its kind and name; None when trying again may help."""
    if status not in (400, 403, 422):
        return None
    for known in _KNOWN if status == 403 or "denied" in said else ():
        if re.search(known.pattern, said) is not None:
            text = f"The API server does not take {name}: {said.rstrip('.')}. {known.advice}"
            return Denial(known.reason, text.rstrip(), known.permanent, known.soon)
    reason = "Forbidden" if status == 403 else "Rejected"
    return Denial(reason, f"The API server refuses {name}: {said.rstrip('.')}.")
