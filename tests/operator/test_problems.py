"""Each way not to serve gives a reason, and a sentence that says what to do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llama_operator.names import Manifest
from llama_operator.pods import read_pod
from llama_operator.problems import Problem, pod_problem
from llama_operator.runtime_status import Reading, Unknown
from tests.operator.objects import (
    a_pod,
    a_resource,
    a_runtime,
    failed,
    parsed,
    ready,
    running,
    terminating,
    waiting,
)

RESOURCE = a_resource(resources={"cpu": 2, "memory": "8Gi", "gpus": 1})


def problem_of(manifest: Manifest, reading: Reading = Unknown.NOT_ASKED) -> Problem | None:
    pod = read_pod("chat", manifest)
    assert pod is not None
    return pod_problem(parsed(RESOURCE), pod, reading)


def fresh() -> Manifest:
    return a_pod(RESOURCE, 0)


def drained(pod: Manifest) -> Manifest:
    """Deleted, and its container has ended as it was asked to."""
    pod = terminating(running(pod))
    pod["status"]["phase"] = "Succeeded"
    return pod


@pytest.mark.parametrize(
    "pod",
    [
        fresh(),
        ready(fresh()),
        running(fresh()),
        terminating(running(fresh())),
        drained(fresh()),
        waiting(fresh(), "ContainerCreating"),
        running(fresh(), lastState={"terminated": {"exitCode": 0}}),
    ],
    ids=["new", "ready", "starting", "going", "drained", "creating", "restarted on purpose"],
)
def test_a_pod_on_its_way_has_no_problem(pod: Manifest) -> None:
    assert problem_of(pod) is None


def test_a_refused_pod_tells_the_kubelets_reason_and_the_node() -> None:
    problem = problem_of(failed(fresh(), node="node-a"))

    assert problem is not None
    assert problem.reason == "TopologyAffinityError"
    assert "node-a" in problem.message
    assert "Topology locality" in problem.message
    assert not problem.permanent


@pytest.mark.parametrize(
    ("reason", "permanent"),
    [
        ("ErrImagePull", False),
        ("ImagePullBackOff", True),
        ("InvalidImageName", True),
        ("ErrImageNeverPull", True),
    ],
)
def test_an_image_that_cannot_be_pulled_is_named(reason: str, permanent: bool) -> None:
    problem = problem_of(waiting(fresh(), reason, "manifest unknown"))

    assert problem is not None
    assert (problem.reason, problem.permanent) == (reason, permanent)
    assert "registry.example/llama-runtime:1" in problem.message
    assert "manifest unknown." in problem.message
    assert "spec.image" in problem.message


def test_a_ready_pod_that_computes_on_the_cpu_does_not_do_what_was_asked_for() -> None:
    for engine in ({"devices": ["CPU"], "gpuLayers": 0}, {"devices": None, "gpuLayers": 0}):
        problem = problem_of(ready(fresh()), a_runtime(engine=engine))
        assert problem is not None
        assert (problem.reason, problem.permanent) == ("NoGPUDevice", True)
    assert (
        problem_of(ready(fresh()), a_runtime(engine={"devices": ["CUDA0"], "gpuLayers": 33}))
        is None
    )
    loading = a_runtime(model={"loaded": False}, engine={"devices": ["CPU"], "gpuLayers": 0})
    assert problem_of(ready(fresh()), loading) is None


def test_a_pod_that_lets_nobody_in_names_the_secret() -> None:
    engine = {"devices": ["CUDA0"], "gpuLayers": 33}
    reading = a_runtime(engine=engine, reason="APIKeysUnreadable", message="No file.")
    problem = problem_of(ready(fresh()), reading)

    assert problem is not None
    assert (problem.reason, problem.permanent) == ("APIKeysUnreadable", True)
    assert "Secret" in problem.message


def test_a_node_that_is_silent_is_told_from_a_container_that_is_not_ready() -> None:
    pod = running(fresh())
    conditions = pod["status"]["conditions"]
    conditions.append({"type": "Ready", "status": "False"})
    conditions.append({"type": "ContainersReady", "status": "False"})
    assert problem_of(pod) is None

    conditions[-1]["status"] = "True"
    problem = problem_of(pod)
    assert problem is not None
    assert problem.reason == "NodeNotReady"
    assert "kubectl describe node node-a" in problem.message


def test_a_missing_secret_is_told_in_the_kubelets_words() -> None:
    problem = problem_of(waiting(fresh(), "CreateContainerConfigError", 'secret "k" not found'))

    assert problem is not None
    assert problem.reason == "CreateContainerConfigError"
    assert 'secret "k" not found' in problem.message
    assert problem.permanent


def ended(exit_code: int, **more: Any) -> dict[str, Any]:
    return {"lastState": {"terminated": {"exitCode": exit_code, **more}}}


def test_out_of_memory_says_which_fields_to_change() -> None:
    problem = problem_of(running(fresh(), **ended(137, reason="OOMKilled")))

    assert problem is not None
    assert problem.reason == "OOMKilled"
    assert "8Gi" in problem.message
    assert "resources.memory" in problem.message
    assert problem.permanent


def test_the_runtimes_last_word_is_the_reason() -> None:
    word = json.dumps({"reason": "NUMANotAligned", "message": "Memory is on node 1"})

    once = problem_of(running(fresh(), **ended(78, message=word)))
    again = problem_of(waiting(fresh(), "CrashLoopBackOff", "", **ended(78, message=word)))

    for problem in (once, again):
        assert problem is not None
        assert problem.reason == "NUMANotAligned"
        assert "Memory is on node 1." in problem.message
    assert once is not None
    assert again is not None
    assert not once.permanent
    assert again.permanent


@pytest.mark.parametrize("word", ["", "not json", "[1]", '{"other": 1}'])
def test_any_last_word_can_be_read(word: str) -> None:
    problem = problem_of(waiting(fresh(), "CrashLoopBackOff", "", **ended(2, message=word)))

    assert problem is not None
    assert problem.reason == "CrashLoopBackOff"
    assert "exit code 2" in problem.message


def test_a_runtime_that_failed_speaks_for_itself() -> None:
    reading = a_runtime(
        state="Failed",
        reason="ModelFileMissing",
        message="There is no file /models/models/m.gguf; copy it there",
    )

    problem = problem_of(running(fresh()), reading)

    assert problem is not None
    assert problem.reason == "ModelFileMissing"
    assert "copy it there." in problem.message
    assert problem.permanent


def test_a_runtime_that_loads_is_no_problem() -> None:
    loading = a_runtime(state="Loading", model={"loaded": False, "loadProgress": 0.4})

    assert problem_of(running(fresh()), loading) is None


@pytest.mark.parametrize(("restarts", "permanent"), [(1, False), (2, False), (3, True)])
def test_ending_again_and_again_does_not_flicker(restarts: int, permanent: bool) -> None:
    problem = problem_of(running(fresh(), restartCount=restarts, **ended(1)))

    assert problem is not None
    assert problem.permanent is permanent


def test_a_pod_that_serves_again_has_no_problem_any_more() -> None:
    pod = ready(fresh())
    pod["status"]["containerStatuses"][0] |= ended(137, reason="OOMKilled")

    assert problem_of(pod) is None
