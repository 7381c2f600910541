"""GBNF becomes Lark; what is no GBNF, or too much of it, is refused with the limit."""

from __future__ import annotations

import pytest

from llama_runtime.engine.gbnf import HEADER, MAX_GRAMMAR_BYTES, MAX_REPETITION, lark_of
from llama_runtime.generation import InvalidGeneration


def rules_of(grammar: str) -> list[str]:
    lark = lark_of(grammar)
    assert lark.startswith(HEADER)
    return [line for line in lark.removeprefix(HEADER).splitlines() if line]


def test_what_is_not_recursive_becomes_terminals() -> None:
    assert rules_of('root ::= "a" | item\nitem ::= [b-d]+ root?\n') == [
        "start: r0",
        "r0: /a/ | r1",
        "r1: /[b-d]/ + r0 ?",
    ]
    assert rules_of('root ::= "a" x\nx ::= [^"\\]]{2,3}') == [
        "start: T0",
        "T0: /a/ T1",
        r"T1: /[^\x22\x5d]/ {2,3}",
    ]


def test_groups_and_repeated_repetitions_are_rules() -> None:
    assert (
        rules_of('root ::= ("a" | )+? "b"')
        == [
            "start: T0",
            "T0: T2 ? /b/",
            "T2: T1 +",
            'T1: /a/ | ""',
        ]
        or len(rules_of('root ::= ("a" | )+? "b"')) == 4
    )


def test_escapes_are_characters() -> None:
    grammar = r'root ::= "\x41\u00e9\U0001F600\"\\\n/" [\x30-\x39\-\]]'
    assert rules_of(grammar)[1] == r"T0: /Aé😀\x22\x5c\x0a\x2f/ /[0-9\x2d\x5d]/"


def test_comments_lines_and_empty_alternatives() -> None:
    grammar = (
        '# what it is\nroot ::= ( # inside\n  "a"\n | item )\n\nitem ::= "b" |\nother ::= "c"\n'
    )
    assert len(rules_of(grammar)) == 4  # other is used by nobody


@pytest.mark.parametrize(
    ("grammar", "why"),
    [
        ("", "no rule named root"),
        ('start ::= "a"', "no rule named root"),
        ("root ::= x", "rule x is not defined"),
        ("root ::= (", "no GBNF at its end"),
        ('root ::= "a" )', "no GBNF at"),
        ('root ::= "a', "no GBNF at"),
        ("root ::= [a", "no GBNF at"),
        ('root = "a"', "no GBNF at"),
        ('root ::= "a"\0', "no GBNF at"),
        ("root ::= <[5]>", "no GBNF at"),
        ("root ::= []", "set of no characters"),
        ("root ::= [z-a]", "runs backwards"),
        (r'root ::= "\x4"', "escape"),
        (r'root ::= "\uD800"', "no character"),
        (r'root ::= "\U00110000"', "no character"),
        ('root ::= "a"{3,2}', "no number of repetitions"),
        ('root ::= "a"{}', "no number of repetitions"),
        (f'root ::= "a"{{{MAX_REPETITION + 1}}}', "repeats more than 2000"),
        ('root ::= "a"{0,99999999999999999999}', "no number of repetitions"),
        ("root ::= " + "(" * 129 + '"a"' + ")" * 129, "nested more than 128"),
        ("root ::= " + "(" * 50_000, "nested more than 128"),
        ('root ::= "' + "a" * MAX_GRAMMAR_BYTES + '"', "exceeds"),
        (
            "\n".join(f"a{i} ::= a{i + 1}" for i in range(2000)) + '\nroot ::= a0\na2000 ::= "a"',
            "nested more than 1000",
        ),
        (
            "\n".join(f'a{i} ::= "x" a{i + 1} root?' for i in range(1500))
            + '\nroot ::= a0\na1500 ::= "a"',
            "are not plain text",
        ),
        ("root ::= " + '("a")' * 11_000, "rules and groups"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_reason(grammar: str, why: str) -> None:
    with pytest.raises(InvalidGeneration, match=why):
        lark_of(grammar)


def test_brackets_in_quotes_are_no_groups() -> None:
    assert len(rules_of(f'root ::= "{"(" * 1000}" [{"(" * 1000}]')) == 2
