from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llama_runtime.numa.binding import Binding
from llama_runtime.numa.gpus import Gpu
from llama_runtime.numa.topology import Topology
from llama_runtime.numa.verdict import LOCAL_RATIO, NUMAPolicy, Observation, judge
from tests.runtime.numa.conftest import patient

MIB = 1024


def observation(
    cpus: set[int] = frozenset({4, 5}),  # type: ignore[assignment]
    mems: set[int] = frozenset({1}),  # type: ignore[assignment]
    gpus: tuple[int | None, ...] = (),
    pages: dict[int, int] | None = None,
    nodes: dict[int, set[int]] | None = None,
    bound: set[int] = frozenset(),  # type: ignore[assignment]
) -> Observation:
    layout = {0: {0, 1, 2, 3}, 1: {4, 5, 6, 7}} if nodes is None else nodes
    return Observation(
        topology=Topology({node: frozenset(own) for node, own in layout.items()}, {}),
        cpus=frozenset(cpus),
        mems=frozenset(mems),
        gpus=tuple(Gpu(f"0000:{number:02x}:00.0", node) for number, node in enumerate(gpus)),
        pages_kib=pages,
        binding=Binding(frozenset(cpus), frozenset(bound)),
    )


LOCAL = {0: 1 * MIB, 1: 99 * MIB}
REMOTE = {0: 99 * MIB, 1: 1 * MIB}


@pytest.mark.parametrize(
    ("verdict", "seen"),
    [
        ("Aligned", observation(gpus=(1,), pages=LOCAL)),
        ("Aligned", observation(gpus=(1, 1), pages=LOCAL)),
        ("Aligned", observation(pages=LOCAL)),
        ("Aligned", observation(pages={0: 5, 1: 95})),
        ("MemoryRemote", observation(pages={0: 6, 1: 94})),
        ("MemoryRemote", observation(gpus=(1,), pages=REMOTE)),
        ("MemoryRemote", observation(gpus=(None,), pages=REMOTE)),
        ("MemoryRemote", observation(mems={0}, pages=None)),
        ("CpusSpanNodes", observation(cpus={3, 4}, pages=LOCAL)),
        ("CpusSpanNodes", observation(cpus={3, 4}, mems={0, 1}, gpus=(1,), pages=LOCAL)),
        ("CpusSpanNodes", observation(cpus={3, 4}, bound={4}, pages=LOCAL)),
        ("MemsSpanNodes", observation(mems={0, 1}, gpus=(1,), pages=LOCAL)),
        ("MemsSpanNodes", observation(mems={0, 1}, gpus=(0,), pages=LOCAL)),
        ("GpuRemote", observation(gpus=(0,), pages=LOCAL)),
        ("GpuRemote", observation(gpus=(0, 1), pages=LOCAL)),
        ("GpuRemote", observation(gpus=(0, None), pages=LOCAL)),
        ("Unknown", observation(gpus=(None,), pages=LOCAL)),
        ("Unknown", observation(gpus=(1, None), pages=LOCAL)),
        ("Unknown", observation(gpus=(1,), pages=None)),
        ("Unknown", observation(gpus=(1,), pages={})),
        ("Unknown", observation(nodes={}, pages=LOCAL)),
        ("Unknown", observation(cpus=set(), gpus=(1,), pages=LOCAL)),
        ("CpusSpanNodes", observation(cpus={3, 4}, mems=set(), pages=LOCAL)),
        ("GpuRemote", observation(mems=set(), gpus=(0,), pages=LOCAL)),
        ("Unknown", observation(mems=set(), pages=LOCAL)),
        ("SingleNode", observation(nodes={0: {4, 5}}, mems={0}, gpus=(None,), pages=None)),
    ],
)
def test_verdicts(verdict: str, seen: Observation) -> None:
    assert judge(seen, "Preferred").verdict == verdict


@pytest.mark.parametrize(
    ("verdict", "aligned", "seen"),
    [
        ("Aligned", True, observation(pages=LOCAL)),
        ("SingleNode", True, observation(nodes={0: {4, 5}}, mems={0})),
        ("Unknown", False, observation(gpus=(None,), pages=LOCAL)),
        ("MemsSpanNodes", False, observation(mems={0, 1}, pages=LOCAL)),
    ],
)
def test_what_required_accepts(verdict: str, aligned: bool, seen: Observation) -> None:
    report = judge(seen, "Required")
    assert (report.verdict, report.aligned) == (verdict, aligned)


subsets = st.frozensets(st.integers(0, 7))
observations = st.builds(
    observation,
    cpus=subsets,
    mems=st.frozensets(st.sampled_from([0, 1])),
    gpus=st.lists(st.sampled_from([0, 1, None]), max_size=3).map(tuple),
    pages=st.none() | st.dictionaries(st.sampled_from([0, 1]), st.integers(0, 10**6)),
)


@patient
@given(observations)
def test_misplaced_is_known_before_anything_is_loaded(seen: Observation) -> None:
    before = judge(dataclasses.replace(seen, pages_kib=None), "Required")
    after = judge(seen, "Required")
    assert before.misplaced == after.misplaced
    assert not (after.misplaced and after.aligned)


def test_the_report_is_the_numa_object_of_status() -> None:
    seen = observation(gpus=(1,), pages={0: 512, 1: 95 * MIB})
    report = judge(seen, "Required").as_dict()
    message = report.pop("message")
    assert report == {
        "policy": "Required",
        "verdict": "Aligned",
        "cpus": "4-5",
        "cpuNodes": [1],
        "mems": "1",
        "gpuNodes": [1],
        "pagesMiB": {"0": 0.5, "1": 95.0},
        "localRatio": 0.9948,
        "boundCpus": None,
        "memoryPolicy": None,
        "changes": 0,
        "changedAt": None,
        "previousVerdict": None,
    }
    for number in ("CPUs 4-5", "0000:00:00.0 (node 1)", "0.5 on 0", "95.0 on 1", "99.5 %"):
        assert number in message


def test_an_unknown_gpu_is_null_and_said() -> None:
    report = judge(observation(gpus=(1, None), pages=LOCAL), "Preferred")
    assert report.gpu_nodes == (1, None)
    assert "0000:01:00.0 (node unknown)" in report.message


def test_what_the_runtime_narrowed_is_said_beside_what_was_given() -> None:
    seen = observation(cpus={2, 3, 4, 5}, bound={4, 5}, pages=LOCAL)
    seen = dataclasses.replace(
        seen, binding=dataclasses.replace(seen.binding, memory_policy="Preferred", note="Bound.")
    )
    report = judge(seen, "Preferred")
    assert (report.cpus, report.bound_cpus, report.memory_policy) == ("2-5", "4-5", "Preferred")
    assert report.local_ratio == 0.99
    assert "Bound" in report.message


def test_cpus_that_run_on_several_nodes_have_no_local_memory() -> None:
    assert judge(observation(cpus={3, 4}, pages=LOCAL), "None").local_ratio is None


@patient
@given(observations)
def test_aligned_means_everything_known_and_on_one_node(seen: Observation) -> None:
    report = judge(seen, "Required")
    if report.verdict == "Aligned":
        [node] = report.cpu_nodes
        assert report.mems == str(node)
        assert all(gpu.node == node for gpu in seen.gpus)
        assert seen.pages_kib
        assert seen.pages_kib[node] >= LOCAL_RATIO * sum(seen.pages_kib.values())


@patient
@given(observations)
def test_an_unknown_gpu_is_never_aligned(seen: Observation) -> None:
    unknown = dataclasses.replace(seen, gpus=(*seen.gpus, Gpu("0000:ff:00.0", None)))
    assert not judge(unknown, "Required").aligned


@patient
@given(observations, st.sampled_from(["None", "Preferred", "Required"]))
def test_the_policy_never_changes_the_verdict(seen: Observation, policy: NUMAPolicy) -> None:
    assert judge(seen, policy).verdict == judge(seen, "Required").verdict


@patient
@given(observations, st.integers(1, 10**6))
def test_more_local_memory_never_loses_alignment(seen: Observation, more: int) -> None:
    report = judge(seen, "Required")
    if report.verdict == "Aligned":
        [node] = report.cpu_nodes
        pages = dict(seen.pages_kib or {})
        pages[node] += more
        better = dataclasses.replace(seen, pages_kib=pages)
        assert judge(better, "Required").verdict == "Aligned"


@patient
@given(observations)
def test_the_numbering_of_nodes_does_not_matter(seen: Observation) -> None:
    other = {0: 5, 1: 2}
    renumbered = dataclasses.replace(
        seen,
        topology=Topology({other[n]: own for n, own in seen.topology.cpus.items()}, {}),
        mems=frozenset(other[node] for node in seen.mems),
        gpus=tuple(
            Gpu(gpu.bus_id, None if gpu.node is None else other[gpu.node]) for gpu in seen.gpus
        ),
        pages_kib=None
        if seen.pages_kib is None
        else {other[node]: kib for node, kib in seen.pages_kib.items()},
    )
    assert judge(renumbered, "Required").verdict == judge(seen, "Required").verdict
