"""Stop strings and characters, however the text comes in pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from llama_runtime.api.text import StopFinder, Transcript
from llama_runtime.generation import Token
from tests.runtime.api.fake_engine import FakeVocabulary

few_letters = st.text(alphabet="ab\n", max_size=30)
stops = st.lists(st.text(alphabet="ab\n", min_size=1, max_size=4), max_size=3)


def in_pieces(text: str, cuts: list[int]) -> list[str]:
    ends = sorted({min(cut, len(text)) for cut in cuts} | {len(text)})
    return [text[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]


@given(few_letters, stops, st.lists(st.integers(0, 30)))
def test_a_text_ends_before_its_first_stop_string(
    text: str, stops: list[str], cuts: list[int]
) -> None:
    finder = StopFinder(stops)
    sent = ""
    for piece in in_pieces(text, cuts):
        sent += finder.feed(piece)
        # What was sent can't be taken back: it must never reach into a stop string.
        assert not any(stop in sent for stop in stops)
        if finder.found:
            break
    if not finder.found:
        sent += finder.rest()
    ends = [(text.find(stop) + len(stop), text.find(stop)) for stop in stops if stop in text]
    if not ends:
        assert sent == text
        assert not finder.found
        return
    assert finder.found
    assert text.startswith(sent)
    assert any(text[len(sent) :].startswith(stop) for stop in stops)


@given(st.text(max_size=20), stops)
def test_tokens_add_up_to_the_text(text: str, stops: list[str]) -> None:
    transcript = Transcript(FakeVocabulary(), stops)
    increments = []
    for byte in text.encode("utf-8", "replace"):
        increments.append(transcript.add(Token(byte)))
        if transcript.stopped:
            break
    increments.append(transcript.finish())
    sent = "".join(increment.text for increment in increments)
    expected = text.encode("utf-8", "replace").decode()
    assert expected.startswith(sent)
    assert transcript.stopped or sent == expected
    tokens = [pair for increment in increments for pair in increment.tokens]
    assert bytes(token.id for token, _ in tokens).startswith(sent.encode())
    assert all(offset <= len(sent) for _, offset in tokens)
    if not transcript.stopped:
        assert len(tokens) == len(expected.encode())


def test_nothing_is_held_back_without_stop_strings() -> None:
    transcript = Transcript(FakeVocabulary())
    assert [transcript.add(Token(byte)).text for byte in "aé".encode()] == ["a", "", "é"]
