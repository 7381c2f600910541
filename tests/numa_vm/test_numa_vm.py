from __future__ import annotations

import pytest

from tests.numa_vm.numa_vm import VmError, read_output


def test_the_last_line_is_the_status_and_the_rest_the_output() -> None:
    assert read_output("one\ntwo\nnuma-vm: exit 3\n", "", 60) == ("one\ntwo\n", 3)


def test_output_without_a_line_end_is_kept() -> None:
    assert read_output("onenuma-vm: exit 0\n", "", 60) == ("one", 0)


@pytest.mark.parametrize("output", ["", "one\n", "numa-vm: exit 0\nmore\n"])
def test_a_guest_that_does_not_finish_shows_its_last_lines(output: str) -> None:
    with pytest.raises(VmError, match=r"did not finish in 60 s") as failure:
        read_output(output, "Kernel panic\n", 60)
    assert output.strip() in str(failure.value)
    assert "Kernel panic" in str(failure.value)
