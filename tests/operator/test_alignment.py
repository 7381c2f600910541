from __future__ import annotations

import json
from datetime import timedelta

import pytest

from llama_operator.alignment import misaligned_end, next_try, nodes_to_avoid, placement
from llama_operator.names import Manifest
from llama_operator.pods import Pod, read_pod
from llama_operator.retry import AVOID
from llama_operator.runtime_status import Unknown
from tests.operator.objects import (
    NOW,
    a_pod,
    a_resource,
    a_runtime,
    misaligned,
    ready,
    running,
)

RESOURCE = a_resource(numa={"policy": "Required"})


def read(manifest: Manifest) -> Pod:
    pod = read_pod("chat", manifest)
    assert pod is not None
    return pod


def fresh(attempt: int = 0) -> Manifest:
    return a_pod(RESOURCE, 0, attempt=attempt)


@pytest.mark.parametrize("again", [False, True], ids=["ended", "started again"])
def test_the_end_of_a_misaligned_runtime_has_what_it_measured(again: bool) -> None:
    end = misaligned_end(read(misaligned(fresh(), again=again)))

    assert end is not None
    assert end.at == NOW
    assert end.numa.verdict == "CpusSpanNodes"
    assert end.numa.cpus == "0-7"
    assert end.numa.message == end.message != ""


def test_a_pod_that_serves_is_what_its_runtime_says() -> None:
    pod = misaligned(fresh(), again=True)
    pod["status"]["conditions"] = ready(fresh())["status"]["conditions"]

    assert misaligned_end(read(pod)) is None


@pytest.mark.parametrize("message", ["", "Killed", "[]", json.dumps({"reason": "Drained"})])
def test_other_ends_are_none(message: str) -> None:
    ended = {"exitCode": 1, "finishedAt": "2026-06-01T12:00:00Z", "message": message}

    assert misaligned_end(read(running(fresh(), state={"terminated": ended}))) is None


def test_an_end_without_numbers_is_still_one() -> None:
    said = {"reason": "NUMANotAligned", "message": "No.", "numa": {"cpuNodes": "wrong"}}
    ended = {"finishedAt": "2026-06-01T12:00:00Z", "message": json.dumps(said)}

    end = misaligned_end(read(running(fresh(), state={"terminated": ended})))

    assert end is not None
    assert (end.message, end.numa.verdict) == ("No.", None)


def test_a_running_runtimes_word_comes_first() -> None:
    pod = read(misaligned(fresh(), again=True))
    own = placement(pod, a_runtime())
    left = placement(pod, Unknown.NO_ANSWER)

    assert own is not None
    assert own.verdict == "Aligned"
    assert left is not None
    assert left.verdict == "CpusSpanNodes"
    assert placement(read(running(fresh())), Unknown.NOT_ASKED) is None


def test_the_node_is_avoided_from_the_next_try_on() -> None:
    pod = read(misaligned(fresh(attempt=2)))
    end = misaligned_end(pod)

    assert end is not None
    assert next_try(pod, end) == NOW + timedelta(seconds=40)
    assert nodes_to_avoid(pod, end) == {"node-a": NOW + timedelta(seconds=40) + AVOID}
