"""The same numbers once more after a restart."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from llama_operator.api import LastRestart, Measurement
from llama_operator.pods import Pod
from llama_operator.restart.facts import is_of_this_process
from llama_operator.restart.gain import tell_gain
from llama_operator.restart.measure import measure
from llama_operator.runtime_status import Reading, RuntimeStatus

WITHIN: Final = timedelta(hours=1)
"""A decode speed that comes later tells of another load."""


def measured_again(
    last: LastRestart, pod: Pod | None, reading: Reading, now: datetime
) -> LastRestart:
    """The restart with what its pod measures now, where something was still missing."""
    if last.before is None:
        return last
    wants_speed = last.before.decode_tokens_per_second is not None
    complete = last.after is not None and (
        not wants_speed or last.after.decode_tokens_per_second is not None
    )
    if complete or pod is None or not pod.ready or now > last.time + WITHIN:
        return last
    measured = measure(reading) if is_of_this_process(reading, pod) else None
    if measured is None:
        return last
    if last.method == "Compact":
        # The speed of late steps has steps from before in it; the runtime compares the cure's.
        cure = reading.kv.last_cure if isinstance(reading, RuntimeStatus) else None
        speed = cure.after.tokens_per_second if cure and cure.cause == "Request" else None
        measured = measured.model_copy(
            update={"decode_tokens_per_second": speed, "decode_slowdown": None}
        )
    if last.after is None:
        return _with(last, measured)
    speeds = {
        "decode_tokens_per_second": measured.decode_tokens_per_second,
        "decode_slowdown": measured.decode_slowdown,
    }
    return _with(last, last.after.model_copy(update=speeds))


def measure_rows(
    rows: Mapping[str, LastRestart],
    pods: Mapping[str, Pod],
    readings: Mapping[str, Reading],
    now: datetime,
) -> dict[str, LastRestart]:
    """Every pod's last restart, by the pod's name, with what was measured since."""
    result = {}
    for name, last in rows.items():
        pod = pods.get(name)
        reading = readings.get(pod.uid) if pod is not None else None
        result[name] = last if reading is None else measured_again(last, pod, reading, now)
    return result


def _with(last: LastRestart, after: Measurement) -> LastRestart:
    if after == last.after:
        return last
    told = (last.message or "").removesuffix(tell_gain(last.before, last.after)).strip()
    message = f"{told} {tell_gain(last.before, after)}".strip()
    return last.model_copy(update={"after": after, "message": message})
