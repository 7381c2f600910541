from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llama_runtime.numa.binding import Binding, Plan, plan_binding, still_in_force
from llama_runtime.numa.gpus import Gpu
from llama_runtime.numa.topology import Topology
from tests.runtime.numa.conftest import patient, run_python

TWO = Topology({0: frozenset({0, 1, 2, 3}), 1: frozenset({4, 5, 6, 7})}, {0: 100, 1: 200})
ALL = frozenset(range(8))
BOTH = frozenset({0, 1})


def gpus(*nodes: int | None) -> tuple[Gpu, ...]:
    return tuple(Gpu(f"0000:{number:02x}:00.0", node) for number, node in enumerate(nodes))


def test_what_is_on_one_node_already_is_left_alone() -> None:
    plan = plan_binding(TWO, frozenset({4, 5}), frozenset({1}), gpus(1), None)
    assert plan == Plan(frozenset(), None)


def test_cpus_and_memory_follow_the_gpu() -> None:
    plan = plan_binding(TWO, frozenset({2, 3, 4}), BOTH, gpus(1), None)
    assert plan == Plan(frozenset({4}), 1)


def test_memory_alone_is_narrowed_when_the_cpus_are_right() -> None:
    assert plan_binding(TWO, frozenset({0, 1}), BOTH, gpus(), None) == Plan(frozenset(), 0)


def test_memory_is_never_asked_of_a_node_that_is_not_allowed() -> None:
    three = Topology({**TWO.cpus, 2: frozenset({8, 9})}, {0: 1, 1: 1, 2: 1})
    assert plan_binding(three, frozenset({8, 9}), BOTH, gpus(2), None) == Plan(frozenset(), None)


@pytest.mark.parametrize("nodes", [(0, 1), (None,), (1, None)])
def test_gpus_on_several_or_unknown_nodes_bind_nothing(nodes: tuple[int | None, ...]) -> None:
    plan = plan_binding(TWO, ALL, BOTH, gpus(*nodes), 2)
    assert (plan.cpus, plan.memory_node) == (frozenset(), None)
    assert "not bound" in plan.note


def test_a_gpu_where_we_have_no_cpus_binds_nothing() -> None:
    plan = plan_binding(TWO, frozenset({0, 1}), BOTH, gpus(1), None)
    assert (plan.cpus, plan.memory_node) == (frozenset(), None)


def test_without_a_gpu_the_node_with_most_free_memory_takes_the_quota() -> None:
    assert plan_binding(TWO, ALL, BOTH, (), 4.0) == Plan(frozenset({4, 5, 6, 7}), 1)


@pytest.mark.parametrize("quota", [4.5, None])
def test_without_a_gpu_binding_never_costs_cpus(quota: float | None) -> None:
    plan = plan_binding(TWO, ALL, BOTH, (), quota)
    assert plan.cpus == frozenset()
    assert "not bound" in plan.note


node_sets = st.frozensets(st.sampled_from([0, 1]))


@patient
@given(
    st.frozensets(st.integers(0, 7)),
    node_sets,
    st.lists(st.sampled_from([0, 1, None]), max_size=4),
    st.none() | st.floats(0.1, 16),
)
def test_a_plan_stays_within_what_was_given(
    cpus: frozenset[int], mems: frozenset[int], nodes: list[int | None], quota: float | None
) -> None:
    plan = plan_binding(TWO, cpus, mems, gpus(*nodes), quota)
    assert plan.cpus <= cpus
    assert len(TWO.nodes_of(plan.cpus)) <= 1
    assert plan.memory_node is None or plan.memory_node in mems


def test_a_mask_that_is_not_ours_any_more_is_what_we_are_given_now() -> None:
    binding = Binding(given=ALL, cpus=frozenset({4, 5, 6, 7}), memory_policy="Preferred")
    assert still_in_force(binding, frozenset({4, 5, 6, 7})) == binding
    moved = still_in_force(binding, frozenset({0, 1}))
    assert moved.given == {0, 1}
    assert moved.cpus == frozenset()
    assert moved.memory_policy == "Preferred"
    assert "changed" in moved.note


def test_bind_narrows_running_and_later_threads() -> None:
    done = run(
        """
import threading
stop, masks = threading.Event(), []
early = threading.Thread(target=lambda: (stop.wait(), masks.append(os.sched_getaffinity(0))))
early.start()
cpu = min(os.sched_getaffinity(0))
binding = bind(Plan(frozenset({cpu}), None), allowed_cpus())
late = threading.Thread(target=lambda: masks.append(os.sched_getaffinity(0)))
late.start(); late.join(); stop.set(); early.join()
masks.append(os.sched_getaffinity(0))
print(json.dumps([cpu, [list(m) for m in masks], list(binding.cpus), binding.note]))
"""
    )
    cpu, masks, bound, note = json.loads(done)
    assert masks == [[cpu]] * 3
    assert bound == [cpu]
    assert f"CPUs {cpu}" in note


def test_cpus_outside_the_cpuset_are_refused_and_said() -> None:
    done = run(
        """
given = allowed_cpus()
binding = bind(Plan(frozenset({max(given) + 100}), None), given)
print(json.dumps([binding.note, list(binding.cpus), allowed_cpus() == given]))
"""
    )
    assert json.loads(done) == ["affinity refused (EINVAL)", [], True]


def test_memory_policy_is_set_where_the_kernel_allows_it_and_said_where_not() -> None:
    done = run(
        """
binding = bind(Plan(frozenset(), 0), allowed_cpus())
spare = mmap.mmap(-1, 1 << 20)
spare.write(bytes(1 << 20))
policies = [line.split()[1] for line in open("/proc/self/numa_maps")]
print(json.dumps([binding.memory_policy, "prefer:0" in policies, binding.note]))
"""
    )
    policy, in_force, note = json.loads(done)
    assert (policy == "Preferred") == in_force
    assert policy in ("Preferred", "Refused (EPERM)", "Refused (ENOSYS)")
    assert "memory" in note


def test_a_node_that_does_not_exist_is_refused() -> None:
    done = run("print(bind(Plan(frozenset(), 700), allowed_cpus()).memory_policy)")
    assert done.strip() in ("Refused (EINVAL)", "Refused (EPERM)", "Refused (ENOSYS)")


def run(code: str) -> str:
    imports = "import json, mmap, os\nfrom llama_runtime.numa.limits import allowed_cpus\n"
    imports += "from llama_runtime.numa.binding import Plan, bind\n"
    return run_python(imports + code)
