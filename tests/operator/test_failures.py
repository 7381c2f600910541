from __future__ import annotations

from datetime import timedelta

from llama_operator.act import Refusal
from llama_operator.failures import Failures
from llama_operator.names import Key
from tests.operator.objects import NOW

KEY = Key("default", "chat")
POD = "Pod chat-0"
QUOTA = Refusal(POD, "QuotaExceeded", "Raise the quota.", permanent=False)


def test_a_refusal_is_counted_and_waits_longer_each_time() -> None:
    failures = Failures()
    waits = []
    for count in range(1, 4):
        failures.tried(KEY, 1, [POD], [QUOTA], NOW)
        assert failures.of(KEY)[POD].count == count
        waits.append(failures.of(KEY)[POD].retry_at - NOW)

    assert waits == [timedelta(seconds=10), timedelta(seconds=20), timedelta(seconds=40)]


def test_a_success_forgets_it_and_leaves_the_others() -> None:
    failures = Failures()
    other = Refusal("Service chat", "NameTaken", "Delete it.", permanent=True)
    failures.tried(KEY, 1, [POD, other.object], [QUOTA, other], NOW)

    failures.tried(KEY, 1, [POD], [], NOW)

    assert set(failures.of(KEY)) == {"Service chat"}


def test_a_changed_spec_starts_a_new_count() -> None:
    failures = Failures()
    failures.tried(KEY, 1, [POD], [QUOTA], NOW)
    failures.tried(KEY, 2, [POD], [QUOTA], NOW)

    assert failures.of(KEY)[POD].count == 1
    assert failures.of(KEY)[POD].generation == 2


def test_what_goes_by_itself_is_looked_for_soon() -> None:
    failures = Failures()
    going = Refusal(POD, "Terminating", "It is still going.", permanent=False, soon=True)
    for _ in range(5):
        failures.tried(KEY, 1, [POD], [going], NOW)

    assert failures.of(KEY)[POD].retry_at == NOW + timedelta(seconds=2)


def test_a_resource_that_is_gone_is_forgotten() -> None:
    failures = Failures()
    failures.tried(KEY, 1, [POD], [QUOTA], NOW)
    failures.forget(KEY)

    assert failures.of(KEY) == {}
