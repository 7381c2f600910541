"""Where a model comes from."""

from __future__ import annotations

import pytest

from llama_operator.api import ClaimSource, parse_claim_source


@pytest.mark.parametrize(
    ("source", "claim", "path"),
    [
        ("pvc://models/model.gguf", "models", "model.gguf"),
        ("pvc://team.models/a/b/c.gguf", "team.models", "a/b/c.gguf"),
        ("pvc://models/.cache/model.gguf", "models", ".cache/model.gguf"),
    ],
)
def test_splits_claim_and_path(source: str, claim: str, path: str) -> None:
    assert parse_claim_source(source) == ClaimSource(claim, path)


@pytest.mark.parametrize(
    "source",
    [
        "hf://owner/repository/model.gguf",
        "pvc://models",
        "pvc://models/",
        "pvc:///model.gguf",
        "pvc://Models/model.gguf",
        "pvc://models/a//b.gguf",
        "pvc://models/../b.gguf",
        "pvc://models/./b.gguf",
        "pvc://models/a/",
        "pvc://models/$(HOME)",
        "pvc://models/a b.gguf",
        "pvc://models/a.gguf\n",
    ],
)
def test_refuses_everything_else(source: str) -> None:
    with pytest.raises(ValueError, match=r"write model.source as pvc://CLAIM/PATH"):
        parse_claim_source(source)
