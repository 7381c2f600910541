from __future__ import annotations

import pytest

from tests.numa_vm.numa_vm import VmError, read_log


def test_output_and_status_come_from_between_the_marks() -> None:
    log = "[    0.1] noise\r\nnuma-vm: begin\r\none\r\ntwo\r\nnuma-vm: exit 3\r\n[  9] off\r\n"
    assert read_log(log, 60) == ("one\ntwo\n", 3)


@pytest.mark.parametrize("log", ["", "Kernel panic", "numa-vm: begin\none\n"])
def test_a_guest_that_does_not_finish_shows_its_last_lines(log: str) -> None:
    with pytest.raises(VmError, match=r"did not finish in 60 s") as failure:
        read_log(log, 60)
    assert log.strip() in str(failure.value)
