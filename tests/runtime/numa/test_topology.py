from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llama_runtime.numa.topology import format_list, parse_list, read_topology
from tests.runtime.numa.conftest import Machine, patient


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0-3,8\n", {0, 1, 2, 3, 8}),
        ("5", {5}),
        ("\n", set()),
        ("", set()),
        ("0,2,4-5", {0, 2, 4, 5}),
        ("7-7", {7}),
    ],
)
def test_lists_of_the_kernel(text: str, numbers: set[int]) -> None:
    assert parse_list(text) == numbers


@pytest.mark.parametrize("text", ["0-", "-1", "a", "0,,1", "0-3,", "3-1", "1 2", "0x1", "\u0661"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"list|counts down"):
        parse_list(text)


@patient
@given(st.frozensets(st.integers(0, 1023)))
def test_a_list_survives_formatting(numbers: frozenset[int]) -> None:
    assert parse_list(format_list(numbers)) == numbers


@patient
@given(st.frozensets(st.integers(0, 40), min_size=1))
def test_formatting_is_the_shortest_form(numbers: frozenset[int]) -> None:
    gaps = sum(number + 1 not in numbers for number in numbers)
    assert len(format_list(numbers).split(",")) == gaps


def test_reads_the_nodes_that_are_online(machine: Machine) -> None:
    root = machine(cpus={0: "0-1,4-5", 1: "2-3,6-7"}, free_kib={0: 100, 1: 200})
    topology = read_topology(root)
    assert topology.cpus == {0: {0, 1, 4, 5}, 1: {2, 3, 6, 7}}
    assert topology.free_kib == {0: 100, 1: 200}


def test_a_node_of_memory_alone_has_no_cpus(machine: Machine) -> None:
    topology = read_topology(machine(cpus={0: "0-3", 2: ""}))
    assert topology.cpus == {0: {0, 1, 2, 3}, 2: set()}
    assert topology.free_kib == {0: 0, 2: 0}


def test_other_entries_beside_the_nodes_are_left_alone(machine: Machine) -> None:
    root = machine(cpus={0: "0"}, files={"sys/devices/system/node/nodes_extra/cpulist": "9"})
    assert read_topology(root).cpus == {0: {0}}


def test_a_kernel_without_nodes_gives_an_empty_topology(machine: Machine) -> None:
    assert read_topology(machine(cpus={})).cpus == {}


def test_nodes_of_cpus(machine: Machine) -> None:
    topology = read_topology(machine())
    assert topology.nodes_of({2}) == {1}
    assert topology.nodes_of({1, 2}) == {0, 1}
    assert topology.nodes_of({99}) == set()


def test_this_machine_has_the_nodes_that_the_kernel_lists() -> None:
    with open("/sys/devices/system/node/online") as online:
        assert set(read_topology().cpus) == parse_list(online.read())
