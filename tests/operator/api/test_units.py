"""Durations and quantities."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llama_operator.api import format_duration, parse_duration, parse_quantity


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0s", 0), ("90s", 90), ("5m", 300), ("2h", 7200), ("1h30m", 5400), ("1h1m1s", 3661)],
)
def test_reads_durations(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "5 m", "m", "-5m", "1.5h", "5m1h", "1d", "5m\n", "٣s"])
def test_refuses_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration: write it as"):
        parse_duration(text)


@pytest.mark.parametrize(("seconds", "text"), [(0, "0s"), (90, "1m30s"), (5400, "1h30m")])
def test_writes_durations(seconds: int, text: str) -> None:
    assert format_duration(seconds) == text


def test_writes_no_negative_duration() -> None:
    with pytest.raises(ValueError, match="cannot be negative"):
        format_duration(-1)


@given(st.integers(min_value=0, max_value=9999 * 3600))
def test_reads_what_it_writes(seconds: int) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("quantity", "number"),
    [
        (2, "2"),
        ("2", "2"),
        ("500m", "0.5"),
        ("8Gi", str(8 * 2**30)),
        ("1k", "1000"),
        ("1e3", "1000"),
        ("1E3", "1000"),
        ("1E", str(10**18)),
        ("1Ei", str(2**60)),
        ("250u", "0.00025"),
        ("-5n", "-0.000000005"),
        (".5", "0.5"),
    ],
)
def test_reads_quantities(quantity: int | str, number: str) -> None:
    assert parse_quantity(quantity) == Decimal(number)


@pytest.mark.parametrize("quantity", ["", "two", "8 Gi", "8GB", "NaN", "1_000", "8Gi\n"])
def test_refuses_what_is_no_quantity(quantity: str) -> None:
    with pytest.raises(ValueError, match="is not a Kubernetes quantity: write it as"):
        parse_quantity(quantity)
