"""The numbers after a restart: of the new process, once each, and not hours later."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from llama_operator.api import LastRestart, Measurement
from llama_operator.pods import Pod, read_pod
from llama_operator.restart.afterwards import measured_again
from llama_operator.restart.gain import tell_gain
from tests.operator.objects import NOW, a_pod, a_resource, a_runtime, ready, time_text

BEFORE = Measurement(span_ratio=0.5, decode_tokens_per_second=10.0)


def a_restart(method: str = "Container") -> LastRestart:
    return LastRestart(
        time=NOW, reason="Scheduled", method=method, before=BEFORE, message="The schedule asks."
    )


def the_pod() -> Pod:
    manifest = ready(a_pod(a_resource(), 0))
    started = {"running": {"startedAt": time_text(NOW)}}
    manifest["status"]["containerStatuses"][0]["state"] = started
    pod = read_pod("chat", manifest)
    assert pod is not None
    return pod


def again(last: LastRestart, *, minutes: float = 1, **runtime: Any) -> LastRestart:
    reading = a_runtime(**{"startedAt": time_text(NOW), **runtime})
    return measured_again(last, the_pod(), reading, NOW + timedelta(minutes=minutes))


def kv(speed: float | None, **more: Any) -> dict[str, Any]:
    return {"spanRatio": 0.0, "decode": {"tokensPerSecond": speed}, **more}


def test_the_process_that_ended_does_not_speak_for_the_new_one() -> None:
    old = time_text(NOW - timedelta(hours=5))

    assert again(a_restart(), kv=kv(9.0), startedAt=old).after is None


def test_a_speed_that_comes_later_completes_the_numbers_once() -> None:
    first = again(a_restart(), kv=kv(None))
    assert first.after is not None
    assert first.after.decode_tokens_per_second is None

    complete = again(first, minutes=20, kv=kv(12.0))
    assert complete.after is not None
    assert complete.after.decode_tokens_per_second == 12.0
    assert complete.message == f"The schedule asks. {tell_gain(BEFORE, complete.after)}"
    assert again(complete, minutes=21, kv=kv(30.0)) == complete


def test_a_speed_of_hours_later_tells_of_another_load() -> None:
    first = again(a_restart(), kv=kv(None))

    assert again(first, minutes=90, kv=kv(12.0)) == first


def test_after_compact_the_speed_is_the_cures_own() -> None:
    cure = {"cause": "Request", "before": {"tokensPerSecond": 10}, "after": {}}
    first = again(a_restart("Compact"), kv=kv(10.0, lastCure=cure))
    assert first.after is not None
    assert first.after.decode_tokens_per_second is None

    cure = {**cure, "after": {"tokensPerSecond": 15}}
    found = again(first, kv=kv(10.0, lastCure=cure)).after
    assert found is not None
    assert found.decode_tokens_per_second == 15
