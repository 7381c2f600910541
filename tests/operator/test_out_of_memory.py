"""The sum that did not fit."""

from __future__ import annotations

import json

import pytest

from llama_operator.out_of_memory import out_of_memory
from llama_operator.pods import read_pod
from tests.operator.objects import a_pod, a_resource, parsed

GIB = 2**30


def message(said: str) -> str:
    resource = a_resource(resources={"cpu": 2, "memory": "8Gi", "gpus": 0})
    pod = read_pod("chat", a_pod(resource, 0))
    assert pod is not None
    return out_of_memory(parsed(resource), pod, {"reason": "OOMKilled", "message": said})


def test_the_whole_sum() -> None:
    memory = {"weightsBytes": 5 * GIB, "kvBytes": 3 * GIB, "computeBytes": GIB // 2}
    text = message(json.dumps({"memory": memory}))

    assert "its 8Gi of memory" in text
    assert "weights 5.00 GiB + KV cache 3.00 GiB + compute buffers 0.50 GiB = 8.50 GiB" in text
    assert "Raise resources.memory" in text


def test_a_sum_that_is_not_complete_says_what_is_to_come() -> None:
    text = message(json.dumps({"memory": {"weightsBytes": 5 * GIB, "kvBytes": 4 * GIB}}))

    assert "= 9.00 GiB and the compute buffers" in text


@pytest.mark.parametrize("said", ["", "no JSON", "[]", "{}", '{"memory": {"kvBytes": null}}'])
def test_without_a_sum_the_advice_stays(said: str) -> None:
    assert "raise resources.memory, or lower kv.maxSequences" in message(said)
