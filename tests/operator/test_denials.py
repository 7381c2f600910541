"""Answers of the API server's admission, and what they mean."""

from __future__ import annotations

import pytest

from llama_operator.denials import denial

POD = 'pods "chat-0" is forbidden: '


@pytest.mark.parametrize(
    ("said", "reason", "permanent"),
    [
        (POD + "exceeded quota: q, requested: pods=1, used: pods=1", "QuotaExceeded", False),
        (POD + "failed quota: q: must specify limits.cpu", "QuotaExceeded", False),
        (
            POD + "maximum memory usage per Container is 1Gi, but limit is 24Gi",
            "LimitRangeExceeded",
            True,
        ),
        (
            POD + 'violates PodSecurity "restricted:latest": seccompProfile',
            "PodSecurityViolation",
            True,
        ),
        (POD + "no PriorityClass with name high was found", "PriorityClassMissing", True),
        (POD + 'pod rejected: RuntimeClass "kata" not found', "RuntimeClassMissing", True),
        (
            'admission webhook "policy.example" denied the request: no',
            "AdmissionDenied",
            True,
        ),
        (
            POD + "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
            "AdmissionDenied",
            True,
        ),
        (
            "unable to create new content in namespace n because it is being terminated",
            "NamespaceTerminating",
            False,
        ),
        (POD + "User cannot create resource", "Forbidden", True),
    ],
)
def test_a_refusal_has_a_reason_and_says_what_was_refused(
    said: str, reason: str, permanent: bool
) -> None:
    found = denial("Pod chat-0", 403, said)

    assert found is not None
    assert (found.reason, found.permanent) == (reason, permanent)
    assert "Pod chat-0" in found.message
    assert said in found.message


def test_a_service_account_that_is_still_to_come_is_looked_for_soon() -> None:
    said = POD + 'error looking up service account n/default: serviceaccount "default" not found'
    found = denial("Pod chat-0", 403, said)

    assert found is not None
    assert found.soon
    assert not found.permanent


@pytest.mark.parametrize("status", [409, 429, 500, 503])
def test_what_may_pass_is_no_denial(status: int) -> None:
    assert denial("Pod chat-0", status, "later") is None


def test_what_is_invalid_is_rejected() -> None:
    found = denial("Pod chat-0", 422, "spec.containers[0].image: Required value")

    assert found is not None
    assert (found.reason, found.permanent) == ("Rejected", True)
