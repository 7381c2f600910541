"""What an earlier operator made, under this one: nothing is replaced and nothing is touched.

`recorded/` has the objects as the builders of that version made them. A difference here restarts
every user's pods at their next upgrade: add a new record for a new version, change no old one.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from llama_operator.decide import decide
from llama_operator.names import Manifest
from llama_operator.observation import Observation
from tests.operator.objects import NOW, ready

RECORDS = sorted((Path(__file__).parent / "recorded").glob("*.json"))
CASES = [
    pytest.param(case, id=f"{file.stem} {name}")
    for file in RECORDS
    for name, case in json.loads(file.read_text()).items()
]


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_done_to_it(case: dict[str, Manifest]) -> None:
    pod = case["pod"]
    pod["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    pod["status"] = {"phase": "Running", "qosClass": "Guaranteed"}

    decision = decide(
        Observation(
            resource=case["resource"],
            pods=(ready(pod),),
            service=case["service"],
            pod_disruption_budget=case["budget"],
            default_image="llama-runtime:9.9.9",
        ),
        NOW,
    )

    assert decision.actions == ()
    assert decision.status is not None
    assert decision.status.ready == "1/1"
    assert decision.status.runtime_image == "llama-runtime:0.1.0"
