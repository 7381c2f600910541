"""Texts of a wanted length in tokens, each different from its first words on."""

from __future__ import annotations

import random

WORDS = (
    "the sea was calm and a small boat moved over green water while people on land talked "
    "about work food music children winter summer roads houses books stories history science "
    "family friends money time light trees birds rivers cities trains letters questions answers"
)
"""Each is one token of SmolLM2 after a space."""


def text(tokens: int, seed: str) -> str:
    """Roughly that many tokens, the same for the same seed."""
    choose = random.Random(seed)
    return " ".join(choose.choices(WORDS.split(), k=tokens))


def question(seed: str) -> str:
    """A short user message of about 30 tokens."""
    return f"Tell me something about this: {text(22, seed)}."
