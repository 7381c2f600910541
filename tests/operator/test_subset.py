from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llama_operator.subset import contains

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(JSON)
def test_everything_contains_itself(value: Any) -> None:
    assert contains(value, value)


@pytest.mark.parametrize(
    ("live", "wanted"),
    [
        ({"a": 1, "added": 2}, {"a": 1}),
        ({"ports": [{"port": 80, "nodePort": 1}]}, {"ports": [{"port": 80}]}),
        ({"ports": [{"port": 81}, {"port": 80}]}, {"ports": [{"port": 80}]}),
    ],
)
def test_what_others_add_is_no_difference(live: Any, wanted: Any) -> None:
    assert contains(live, wanted)


@pytest.mark.parametrize(
    ("live", "wanted"),
    [
        ({}, {"a": None}),
        ({"a": 2}, {"a": 1}),
        ({"a": {"b": 1}}, {"a": {"b": 2}}),
        ({"ports": []}, {"ports": [{"port": 80}]}),
        ({"ports": None}, {"ports": [{"port": 80}]}),
        (None, {"a": 1}),
    ],
)
def test_what_is_changed_or_missing_is(live: Any, wanted: Any) -> None:
    assert not contains(live, wanted)
