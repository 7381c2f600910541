from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import validate

from tests.bench import figures
from tests.bench.figures import Figure, number, percentile, ratio, rounds

SCHEMA = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["name", "value", "unit", "better", "target", "note"],
        "additionalProperties": False,
        "properties": {
            "name": {"type": "string"},
            "value": {"type": "number"},
            "unit": {"type": "string"},
            "better": {"enum": ["higher", "lower"]},
            "target": {"type": ["number", "null"]},
            "note": {"type": "string"},
        },
    },
}


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.floats(0, 100))
def test_a_percentile_is_a_value_that_enough_others_do_not_exceed(
    values: list[float], percent: float
) -> None:
    found = percentile(values, percent)
    assert found in values
    assert sum(value <= found for value in values) >= len(values) * percent / 100
    assert sum(value < found for value in values) <= len(values) * percent / 100


def test_percentiles_of_a_hundred_values() -> None:
    values = list(range(1, 101))
    assert [percentile(values, percent) for percent in (0, 50, 95, 99, 100)] == [1, 50, 95, 99, 100]


@pytest.mark.parametrize(("values", "percent"), [([], 50), ([1.0], -1), ([1.0], 101)])
def test_a_percentile_that_does_not_exist(values: list[float], percent: float) -> None:
    with pytest.raises(ValueError, match="percentile"):
        percentile(values, percent)


@pytest.mark.parametrize(
    ("better", "value", "target", "met"),
    [
        ("higher", 1.0, 1.0, True),
        ("higher", 0.99, 1.0, False),
        ("lower", 1.0, 1.0, True),
        ("lower", 1.01, 1.0, False),
        ("lower", 1.01, None, None),
    ],
)
def test_a_target_is_met(
    better: figures.Better, value: float, target: float | None, met: bool | None
) -> None:
    assert Figure("n", value, "x", better, target, "").met is met


def test_a_ratio_compares_the_best_rounds_and_shows_the_spread() -> None:
    figure = ratio(
        "speed", rounds([90.0, 120.0, 100.0], "higher"), rounds([50.0, 60.0], "higher"),
        "peer", "tok/s", 1.5,
    )  # fmt: skip
    assert figure.value == 2.0
    assert figure.met
    assert "120 tok/s (median 100, 90.0-120)" in figure.note
    faster = ratio(
        "wait", rounds([3.0, 1.0], "lower"), rounds([4.0, 2.0], "lower"), "peer", "s", 0.4
    )
    assert faster.value == 0.5
    assert faster.met is False


def test_a_quantity_without_rounds_is_refused() -> None:
    with pytest.raises(ValueError, match="round"):
        rounds([], "higher")


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (1234.5, "1234"), (99.96, "100.0"), (12.345, "12.3"), (0.01234, "0.0123"),
     (-2.0, "-2.00")],
)  # fmt: skip
def test_numbers_have_three_digits(value: float, shown: str) -> None:
    assert number(value) == shown


def test_the_file_holds_every_field_and_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "bench" / "runtime.json"
    written = [
        Figure("a", 1.5, "x", "higher", 1.0, "why"),
        Figure("b", 2.0, "s", "lower", None, ""),
    ]
    figures.write(path, written)
    validate(json.loads(path.read_text()), SCHEMA)
    assert figures.read(path) == written


def test_a_value_that_json_lacks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        figures.write(tmp_path / "f.json", [Figure("a", float("nan"), "x", "higher", None, "")])
