"""The shape of a cron line."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from cronsim import CronSim, CronSimError
from hypothesis import given
from hypothesis import strategies as st

from llama_operator.api.cron import CRON_PATTERN, NEVER_PATTERN

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


@pytest.mark.parametrize(
    "line", ["0 0 30 2 *", "0 0 31 2 *", "0 3 30,31 feb *", "0 0 31 4,6,9,11 *", "5 5 31 02,Nov *"]
)
def test_knows_days_that_never_come(line: str) -> None:
    assert re.match(NEVER_PATTERN, line)
    with pytest.raises(CronSimError):
        CronSim(line, datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    "line", ["0 0 29 2 *", "0 0 31 1,4 *", "0 0 30 2 mon", "0 0 30 4 *", "0 0 28,30 2 *"]
)
def test_a_day_that_comes_is_no_such_day(line: str) -> None:
    assert re.match(NEVER_PATTERN, line) is None
    assert next(CronSim(line, datetime(2026, 1, 1, tzinfo=UTC)))
