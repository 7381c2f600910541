"""Pieces of llama.cpp's grammar notation, GBNF (grammars/README.md of llama.cpp)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

MAX_RULES = 5000

JSON_RULES = {
    # At most one line break and a little indentation: a model can't run away in white space.
    "space": r'| " " | "\n" [ \t]{0,20}',
    "value": 'object | array | string | number | "true" | "false" | "null"',
    "object": '"{" space (member ("," space member)* space)? "}"',
    "member": 'string ":" space value',
    "array": '"[" space (value ("," space value)* space)? "]"',
    "string": r'"\"" char* "\""',
    "char": r'[^"\\\x00-\x1F\x7F] | "\\" (["\\/bfnrt] | "u" unicode)',
    "unicode": "[0-9a-cA-Ce-fE-F] [0-9a-fA-F]{3} | [dD] [0-7] [0-9a-fA-F]{2}",
    "number": 'integer ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,2})?',
    "integer": '"-"? ("0" | [1-9] [0-9]{0,15})',
}
_END = ""  # the key of a trie's node at which a text ends
_ESCAPED = re.compile(r'["\\\x00-\x1F\x7F]')
_NAME = re.compile(r"[a-z][a-z0-9-]*")
_REFERENCE = re.compile(r'"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|([a-z][a-z0-9-]*)')


class Grammar:
    """Rules by name; the JSON rules that they refer to come along by themselves."""

    def __init__(self) -> None:
        self._rules: dict[str, str] = {}

    def reserve(self, wish: str) -> str:
        """A name for a rule that is defined later, so that it can refer to itself.

        Raises ValueError when there are too many rules.
        """
        if len(self._rules) >= MAX_RULES:
            raise ValueError(f"the schema needs more than {MAX_RULES} rules: make it smaller")
        name = re.sub(r"[^a-z0-9]+", "-", wish.lower()).strip("-") or "rule"
        name = name if _NAME.fullmatch(name) else f"rule-{name}"
        taken = self._rules.keys() | JSON_RULES.keys() | {"root"}
        unique, number = name, 2
        while unique in taken:
            unique, number = f"{name}-{number}", number + 1
        self._rules[unique] = ""
        return unique

    def define(self, name: str, body: str) -> str:
        self._rules[name] = body
        return name

    def add(self, wish: str, body: str) -> str:
        return self.define(self.reserve(wish), body)

    def render(self, root: str) -> str:
        rules = {"root": root, **self._rules}
        missing = list(rules.values())
        while missing:
            for name in _REFERENCE.findall(missing.pop()):
                if name in JSON_RULES and name not in rules:
                    rules[name] = JSON_RULES[name]
                    missing.append(rules[name])
        return "\n".join(f"{name} ::= {body}" for name, body in rules.items()) + "\n"


def literal(text: str) -> str:
    """A GBNF string that matches ``text`` and nothing else."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r") + '"'


def json_literal(value: object) -> str:
    return literal(json.dumps(value, ensure_ascii=False, separators=(", ", ": ")))


def alternatives(bodies: Iterable[str]) -> str:
    bodies = list(bodies)
    return bodies[0] if len(bodies) == 1 else "(" + " | ".join(bodies) + ")"


def separated(items: Sequence[str]) -> str:
    """JSON's comma between parts that are all there."""
    return ' "," space '.join(items)


def string_except(texts: Iterable[str]) -> str:
    """JSON strings other than ``texts``, without escapes: those could spell one of them.

    A text that JSON can't spell without an escape can't be met, and is left out.
    """
    trie: dict[str, Any] = {}
    for text in texts:
        if _ESCAPED.search(text):
            continue
        node = trie
        for character in text:
            node = node.setdefault(character, {})
        node[_END] = {}
    return rf'"\"" {_unlike(trie)} "\""'


def _unlike(node: dict[str, Any]) -> str:
    """What may follow a text that led to ``node``, so that it becomes none of the trie's."""
    children = [character for character in node if character != _END]
    taken = "".join(f"\\U{ord(character):08X}" for character in children)
    bodies = [f'[^"\\\\\\x00-\\x1F\\x7F{taken}] [^"\\\\\\x00-\\x1F\\x7F]*']
    bodies += [f"{literal(character)} {_unlike(node[character])}" for character in children]
    if _END not in node:
        bodies.append('""')
    return alternatives(bodies)


def integer_between(low: int | None, high: int | None, digits: int = 16) -> str:
    """Integers from low to high (None: without bound, up to ``digits`` digits)."""
    bodies: list[str] = []
    if low is None or low < 0:
        least = max(1, -high) if high is not None and high < 0 else 1
        most = None if low is None else -low
        bodies += [f'"-" {body}' for body in _natural_between(least, most, digits)]
    if high is None or high >= 0:
        bodies += _natural_between(max(0, low or 0), high, digits)
    if not bodies:
        raise ValueError(f"there is no integer from {low} to {high}")
    return alternatives(bodies)


def _natural_between(low: int, high: int | None, digits: int) -> list[str]:
    bodies: list[str] = []
    if high is not None and high < low:
        return bodies
    last = len(str(low)) if high is None else len(str(high))
    for length in range(len(str(low)), last + 1):
        least = max(low, 10 ** (length - 1) if length > 1 else 0)
        most = 10**length - 1 if high is None else min(high, 10**length - 1)
        bodies += _same_length(str(least), str(most))
    if high is None and last < digits:
        bodies.append(f"[1-9] [0-9]{{{last},{digits - 1}}}")
    return bodies


def _same_length(low: str, high: str) -> list[str]:
    if low == high:
        return [literal(low)]
    if set(low[1:]) <= {"0"} and set(high[1:]) <= {"9"}:
        rest = f" [0-9]{{{len(low) - 1}}}" if len(low) > 1 else ""
        return [f"[{low[0]}-{high[0]}]{rest}"]
    first, rest_low, rest_high = low[0], low[1:], high[1:]
    if first == high[0]:
        return [f"{literal(first)} {body}" for body in _same_length(rest_low, rest_high)]
    nines, zeros = "9" * len(rest_low), "0" * len(rest_low)
    bodies = [f"{literal(first)} {body}" for body in _same_length(rest_low, nines)]
    if int(first) + 1 <= int(high[0]) - 1:
        bodies += _same_length(str(int(first) + 1) + zeros, str(int(high[0]) - 1) + nines)
    return bodies + [f"{literal(high[0])} {body}" for body in _same_length(zeros, rest_high)]
