"""Terminals: text is matched whole, and what others may begin like is syntax."""

from __future__ import annotations

import pytest

from llama_runtime.engine.terminals import Rule, terminals_of

RECURSIVE = {"list": Rule(["/x/", "=list", "?"])}
DIGITS = {"digits": Rule(["/[0-9]/", "*"])}


def test_without_recursion_all_is_one_expression() -> None:
    rules = {"root": Rule(["=space", "=digits"]), "space": Rule(["/ /", "*"]), **DIGITS}
    assert terminals_of(rules, 100) == set(rules)


@pytest.mark.parametrize(
    "space", [["/ /", "*"], ["/ /", "?"], ["/ /", "{0,3}"], ['""', "|", "/ /"], ["=digits"]]
)
def test_a_rule_with_something_that_may_be_absent_is_syntax(space: list[str]) -> None:
    rules = {"member": Rule(["/,/", "=space", "/a/"]), "space": Rule(space), **RECURSIVE, **DIGITS}
    found = terminals_of(rules, 100)
    assert "member" not in found
    assert "digits" in found


def test_a_rule_without_is_text() -> None:
    rules = {"number": Rule(["=sign", "/[0-9]/", "+"]), "sign": Rule(["/-/", "|", "/+/"])}
    assert terminals_of(rules | RECURSIVE, 100) == {"number", "sign"}


def test_a_group_that_may_be_absent_is_a_part_of_the_text() -> None:
    rules = {"word": Rule(["/a/", "=(0"]), "(0": Rule(["/b/", "|", '""'])}
    assert terminals_of(rules | RECURSIVE, 100) == {"word", "(0"}


def test_what_leads_to_recursion_is_syntax() -> None:
    rules = {"root": Rule(["/a/", "=list"]), **RECURSIVE}
    assert terminals_of(rules, 100) == set()


def test_rules_nested_too_deep_are_refused() -> None:
    rules = {f"a{i}": Rule([f"=a{i + 1}"]) for i in range(20)} | {"a20": Rule(["/a/"])}
    with pytest.raises(RecursionError):
        terminals_of(rules, 10)
