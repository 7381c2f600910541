from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llama_operator.names import pod_index, pod_name


@given(st.from_regex(r"[a-z]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True), st.integers(0, 1000))
def test_the_index_is_read_from_the_name(deployment: str, index: int) -> None:
    assert pod_index(deployment, pod_name(deployment, index)) == index


@pytest.mark.parametrize(
    "name", ["chat", "chat-", "chat-x", "chat-01", "other-0", "chat-0-0", "chat-²", "chat--1"]
)
def test_other_names_have_no_index(name: str) -> None:
    assert pod_index("chat", name) is None
