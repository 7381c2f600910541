"""When a lease may be taken."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from llama_operator import lease
from llama_operator.lease import Sighting
from llama_operator.names import Key

KEY = Key("llama-system", "operator")
NOW = datetime(2026, 6, 1, 12, 0, 0, 123456, tzinfo=UTC)


def a_lease(holder: str | None = "other", *, version: str = "7", **spec: Any) -> dict[str, Any]:
    found = lease.new_lease(KEY, holder or "", NOW)
    found["metadata"]["resourceVersion"] = version
    found["spec"] |= spec
    return found


def test_a_state_keeps_the_moment_at_which_it_was_seen_first() -> None:
    seen = lease.sight(None, a_lease(version="7"), 10.0)
    assert lease.sight(seen, a_lease(version="7"), 20.0) == Sighting("7", 10.0)
    assert lease.sight(seen, a_lease(version="8"), 20.0) == Sighting("8", 20.0)


@pytest.mark.parametrize(
    ("holder", "age", "taken"),
    [
        ("other", 0.0, False),
        ("other", lease.DURATION_SECONDS - 0.1, False),
        ("other", lease.DURATION_SECONDS, True),
        ("me", 0.0, True),
        ("", 0.0, True),
    ],
)
def test_it_is_taken_when_its_holder_is_silent_for_its_duration(
    holder: str, age: float, taken: bool
) -> None:
    assert lease.may_take(a_lease(holder), "me", Sighting("7", 100.0), 100.0 + age) is taken


def test_the_duration_is_the_one_that_its_holder_gave() -> None:
    longer = a_lease(leaseDurationSeconds=60)
    assert not lease.may_take(longer, "me", Sighting("7", 0.0), 59.0)
    assert lease.may_take(longer, "me", Sighting("7", 0.0), 60.0)


def test_a_lease_that_never_was_is_made_and_one_that_was_deleted_is_waited_for() -> None:
    assert lease.may_create(None, Sighting("", 0.0), 0.0)
    assert not lease.may_create(Sighting("7", 0.0), Sighting("", 5.0), 19.0)
    assert lease.may_create(Sighting("7", 0.0), Sighting("", 5.0), 20.0)


def test_a_claim_counts_a_change_of_hands_and_keeps_the_version() -> None:
    taken = lease.claimed(a_lease("other", version="7", leaseTransitions=3), "me", NOW)
    renewed = lease.claimed(taken, "me", NOW)

    assert taken["metadata"]["resourceVersion"] == "7"
    assert taken["spec"] == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-06-01T12:00:00.123456Z",
        "renewTime": "2026-06-01T12:00:00.123456Z",
        "leaseTransitions": 4,
    }
    assert renewed["spec"]["leaseTransitions"] == 4


def test_a_lease_given_back_has_no_holder() -> None:
    assert lease.holder(lease.released(a_lease("me"), NOW)) == ""


def test_a_silent_leader_is_followed_within_twenty_seconds() -> None:
    begin_with_listing = 2.0
    assert lease.DURATION_SECONDS + lease.RETRY_SECONDS + begin_with_listing < 20
    margin_for_a_write_under_way = lease.DURATION_SECONDS - lease.DEADLINE_SECONDS
    assert margin_for_a_write_under_way >= 5
    assert lease.RENEW_SECONDS + 2 * lease.REQUEST_SECONDS <= lease.DEADLINE_SECONDS
