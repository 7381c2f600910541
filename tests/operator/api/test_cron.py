"""The shape of a cron line."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llama_operator.api.cron import CRON_PATTERN

BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


@pytest.mark.parametrize(
    "line",
    ["0 3 * * *", "*/15 2-4 1,15 * MON-fri", "5,10-20/2 0 31 dec sun", "00 03 01 01 07"],
)
def test_takes(line: str) -> None:
    assert re.match(CRON_PATTERN, line)


@pytest.mark.parametrize(
    "line", ["", "0 3 * *", "0 0 3 * * *", "@daily", "60 * * * *", "* 24 * * *", "*/0 * * * *"]
)
def test_refuses(line: str) -> None:
    assert re.match(CRON_PATTERN, line) is None


@given(st.tuples(*(st.integers(least, most) for least, most in BOUNDS)))
def test_takes_every_value_of_every_field(values: tuple[int, ...]) -> None:
    assert re.match(CRON_PATTERN, " ".join(map(str, values)))


@pytest.mark.parametrize("position", range(5))
def test_refuses_values_past_the_end_of_a_field(position: int) -> None:
    fields = ["*"] * 5
    fields[position] = str(BOUNDS[position][1] + 1)

    assert re.match(CRON_PATTERN, " ".join(fields)) is None
