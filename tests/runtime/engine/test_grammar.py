"""Grammars on the real vocabulary: what they allow, and that none can hold up the engine."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from llama_runtime.api.gbnf import Grammar as Rules
from llama_runtime.api.json_schema import add_schema
from llama_runtime.engine import grammar as grammar_module
from llama_runtime.engine.gbnf import lark_of
from llama_runtime.engine.grammar import Grammar, Grammars
from llama_runtime.engine.vocabulary import ModelVocabulary
from llama_runtime.generation import GrammarFailed, InvalidGeneration
from tests.runtime.api.gbnf_texts import text_of
from tests.runtime.api.test_json_schema import compounds, leaves

STEPS = 40


@pytest.fixture(scope="module")
def grammars(vocabulary: ModelVocabulary) -> Grammars:
    return Grammars(vocabulary)


def follows(grammar: Grammar, vocabulary: ModelVocabulary, text: str) -> bool:
    """Whether the grammar takes all of ``text`` and may end there."""
    for token in vocabulary.tokenize(text, add_special=False, parse_special=False):
        if not grammar.allows(token):
            return False
        grammar.accept(token)
    return grammar.allows(vocabulary.end_of_generation[0])


def allowed(grammar: Grammar, vocabulary: ModelVocabulary) -> list[int]:
    row = np.zeros(vocabulary.size, np.float32)
    grammar.mask(row)
    return [int(token) for token in np.flatnonzero(row != -np.inf)]


def test_the_mask_and_the_single_look_agree(
    grammars: Grammars, vocabulary: ModelVocabulary
) -> None:
    grammar = grammars.start('root ::= "yes" | "no" | "yesterday"')
    tokens = allowed(grammar, vocabulary)
    assert {vocabulary.piece(token) for token in tokens} >= {b"y", b"no", b"yes"}
    assert all(grammar.allows(token) for token in tokens)
    assert sum(grammar.allows(token) for token in range(vocabulary.size)) == len(tokens)
    [yes] = vocabulary.tokenize("yes", add_special=False, parse_special=False)
    grammar.accept(yes)
    assert set(vocabulary.end_of_generation) <= set(allowed(grammar, vocabulary))
    with pytest.raises(GrammarFailed):
        grammar.accept(vocabulary.tokenize("!", add_special=False, parse_special=False)[0])


def test_control_tokens_are_not_the_text_they_show(
    grammars: Grammars, vocabulary: ModelVocabulary
) -> None:
    grammar = grammars.start("root ::= .{0,100}")
    pieces = {vocabulary.piece(token, special=True) for token in allowed(grammar, vocabulary)}
    assert b"<|im_start|>" not in pieces


def test_one_grammar_may_be_followed_by_many(
    grammars: Grammars, vocabulary: ModelVocabulary
) -> None:
    text = 'root ::= "a" | "b"'
    one, other = grammars.start(text), grammars.start(text)
    assert follows(one, vocabulary, "a")
    assert follows(other, vocabulary, "b")
    assert follows(grammars.start(text), vocabulary, "a")


@hypothesis_settings(max_examples=60)
@given(data=st.data(), schema=st.recursive(leaves(), compounds, max_leaves=6))
def test_what_a_schema_allows_is_allowed(
    grammars: Grammars, vocabulary: ModelVocabulary, schema: dict[str, Any], data: st.DataObject
) -> None:
    rules = Rules()
    grammar = rules.render(add_schema(rules, schema, strict=False))
    text = text_of(grammar, data.draw)
    assert follows(grammars.start(grammar), vocabulary, text), text


@pytest.mark.parametrize(
    ("constant", "text"),
    [
        ({"key": [""]}, '{"":true}'),
        ({"key": [""]}, '{"key": [""]}'),
        ([1, {"a": {}}], "[[2]]"),
        ([1, {"a": {}}], '[1, {"a": {}}]'),
        ({}, '{"a": 1}'),
        ([], "[1]"),
    ],
)
def test_a_constant_leaves_room_for_what_begins_like_it(
    grammars: Grammars, vocabulary: ModelVocabulary, constant: Any, text: str
) -> None:
    """Found by the property above: the longest match took `{"` for the constant's beginning."""
    for keyword, value in (("const", constant), ("enum", [constant])):
        rules = Rules()
        free: dict[str, Any] = {"type": ["object", "array"]}
        root = add_schema(rules, {"anyOf": [free, {keyword: value}]}, strict=False)
        assert follows(grammars.start(rules.render(root)), vocabulary, text)


@pytest.mark.parametrize("text", ['{"b":"","c":{}}', '{"a":"","c":{}}', '{"a":"","b":""}', "{}"])
def test_a_member_that_is_left_out_takes_no_other_with_it(
    grammars: Grammars, vocabulary: ModelVocabulary, text: str
) -> None:
    """The comma before the one could be read as that of the other."""
    fields: dict[str, Any] = {"a": {"type": "string"}, "b": {"type": "string"}, "c": {}}
    rules = Rules()
    root = add_schema(rules, {"type": "object", "properties": fields}, strict=False)
    assert follows(grammars.start(rules.render(root)), vocabulary, text)


def test_a_known_grammar_does_not_wait_for_another_one(
    grammars: Grammars, monkeypatch: pytest.MonkeyPatch
) -> None:
    """submit takes known ones on the event loop, while a thread compiles."""
    known = 'root ::= "known"'
    grammars.start(known)
    compiling, known_again = threading.Event(), threading.Event()

    def slow(text: str) -> str:
        compiling.set()
        assert known_again.wait(300)
        return lark_of(text)

    monkeypatch.setattr(grammar_module, "lark_of", slow)
    other = threading.Thread(target=grammars.start, args=('root ::= "another"',))
    other.start()
    assert compiling.wait(300)
    grammars.start(known)
    known_again.set()
    other.join(300)


HOSTILE = {
    "nested optional": 'x ::= "a"{0,1000}\nroot ::= x{0,1000}',
    "nested groups": 'root ::= (("a"{0,1000} "b"){0,1000} "c"){0,1000}',
    "three times optional": 'root ::= (("a"{0,1000}){0,1000}){0,1000}',
    "doubles": 'root ::= "a" root "b" | "a" root "c" | ""',
    "doubles in a loop": 'root ::= ("a" | "a" "a" | [a-z])* root?',
    "ambiguous": 'root ::= two two two | "a"\ntwo ::= root root | "a" | ""',
    "ambiguous ahead": 'root ::= "a" root root root | "a" root root | ""',
    "left recursive": 'root ::= root root | "a"',
    "hidden left recursion": 'root ::= x root "d" | "c"\nx ::= y\ny ::= "b"?',
    "itself": "root ::= root",
    "2^60 readings": "root ::= r0\nr60 ::= [a]\n"
    + "\n".join(f"r{i} ::= r{i + 1} r{i + 1}" for i in range(60)),
    "2^60 optional readings": 'root ::= r0\nr60 ::= "a" root\n'
    + "\n".join(f'r{i} ::= r{i + 1}? r{i + 1}? "a"' for i in range(60)),
    "a long text, often": 'root ::= ("' + "a" * 50_000 + '"){2000}',
    "far back": 'root ::= ([ab]* "a" [ab]{500} "c" | [abd]* "b" [ab]{499} "d")*',
    "large sets": "root ::= ([^" + "".join(map(chr, range(0x4E00, 0x7000, 2))) + ']{0,99} "x")*',
    "many alternatives": "root ::= " + " | ".join(f'"number {i}" root?' for i in range(4000)),
    "many rules": "root ::= r0\n"
    + "\n".join(f'r{i} ::= "abc" r{i + 1} root?' for i in range(900))
    + '\nr900 ::= "x"',
    "any text twice": 'root ::= .{0,2000} "a" .{0,2000}',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_grammar_holds_up_the_others(
    grammars: Grammars, vocabulary: ModelVocabulary, name: str
) -> None:
    """Refused at once, or ended, or followed: what a step may cost is bounded by LIMITS.

    A step that isn't bounded doubles its work with each token: it would not come to its end.
    """
    try:
        grammar = grammars.start(HOSTILE[name])
        for _ in range(STEPS):
            tokens = allowed(grammar, vocabulary)
            letters = [token for token in tokens if set(vocabulary.piece(token)) == {ord("a")}]
            usual = [token for token in tokens if not vocabulary.is_end_of_generation(token)]
            if not usual:
                break
            # the longest one, as a step looks ahead by as many characters
            grammar.accept(max(letters or usual, key=lambda token: len(vocabulary.piece(token))))
    except (InvalidGeneration, GrammarFailed):
        return
