"""The real vocabulary: splitting a text at special tokens changes nothing but the time it takes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from llama_runtime.engine.vocabulary import ModelVocabulary

PIECES = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|im_", " ", "\n", "user", "a<", "日"]


@hypothesis_settings(max_examples=60)
@given(
    pieces=st.lists(st.sampled_from(PIECES), max_size=200),
    add_special=st.booleans(),
    parse_special=st.booleans(),
)
def test_parts_give_the_same_tokens(
    vocabulary: ModelVocabulary, pieces: list[str], add_special: bool, parse_special: bool
) -> None:
    text = "".join(pieces)
    whole = vocabulary._tokenize(text, add_special, parse_special)
    parts = vocabulary.tokenize(text, add_special=add_special, parse_special=parse_special)
    assert parts == whole


def test_a_text_of_special_tokens_takes_time_like_its_length(vocabulary: ModelVocabulary) -> None:
    """llama.cpp alone looks 100 000² times through it: minutes."""
    text = "<|im_start|>a" * 100_000
    assert len(vocabulary.tokenize(text, add_special=False, parse_special=True)) == 200_000
    assert len(vocabulary._parts(text, True)) > 1000
    assert len(vocabulary._parts(text, False)) == 1  # then they are ordinary text


def test_the_longest_piece(vocabulary: ModelVocabulary) -> None:
    assert vocabulary.longest_piece == 81
