"""Texts that a GBNF grammar allows, drawn by hypothesis: a second reading of the notation."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import strategies

Draw = Callable[[strategies.SearchStrategy[int]], int]

TOKEN = re.compile(
    r'\s*(?:(?P<literal>"(?:\\.|[^"\\])*")|(?P<set>\[(?:\\.|[^\]\\])*\])|(?P<name>[a-z][a-z0-9-]*)'
    r"|(?P<repeat>\{\d+(?:,\d*)?\})|(?P<sign>[()|*+?]))"
)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
# What a set that starts with ^ is drawn from: what JSON must escape, and what it need not.
ANYTHING = [chr(code) for code in range(0x20, 0x7F)] + ["é", "ß", "日", "\N{GRINNING FACE}"]
# Deep in a recursive rule only its first alternatives are drawn, so that a text ends.
DEPTH = 40


@dataclass(frozen=True)
class Literal:
    text: str


@dataclass(frozen=True)
class Characters:
    choices: str


@dataclass(frozen=True)
class Name:
    name: str


@dataclass(frozen=True)
class Repeat:
    item: Node
    least: int
    most: int | None


@dataclass(frozen=True)
class Sequence:
    items: tuple[Node, ...]


@dataclass(frozen=True)
class Choice:
    options: tuple[Node, ...]


Node = Literal | Characters | Name | Repeat | Sequence | Choice


class Parser:
    def __init__(self, body: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        position = 0
        while body[position:].strip():
            match = TOKEN.match(body, position)
            assert match, f"no GBNF: {body[position:]}"
            kind = match.lastgroup or ""
            self._tokens.append((kind, match[kind]))
            position = match.end()

    def parse(self) -> Node:
        node = self._choice()
        assert not self._tokens, f"left over: {self._tokens}"
        return node

    def _peek(self) -> tuple[str, str]:
        return self._tokens[0] if self._tokens else ("", "")

    def _choice(self) -> Node:
        options = [self._sequence()]
        while self._peek() == ("sign", "|"):
            self._tokens.pop(0)
            options.append(self._sequence())
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _sequence(self) -> Node:
        items: list[Node] = []
        while self._tokens and self._peek() not in (("sign", "|"), ("sign", ")")):
            kind, text = self._tokens.pop(0)
            if kind == "literal":
                items.append(Literal(_unescaped(text[1:-1])))
            elif kind == "set":
                items.append(Characters(_members(text[1:-1])))
            elif kind == "name":
                items.append(Name(text))
            elif kind == "repeat":
                first, comma, last = text[1:-1].partition(",")
                end = (int(last) if last else None) if comma else int(first)
                items.append(Repeat(items.pop(), int(first), end))
            elif text == "(":
                items.append(self._choice())
                assert self._tokens.pop(0) == ("sign", ")")
            else:
                least, limit = {"*": (0, None), "+": (1, None), "?": (0, 1)}[text]
                items.append(Repeat(items.pop(), least, limit))
        return Sequence(tuple(items))


def parse(grammar: str) -> dict[str, Node]:
    rules = {}
    for line in grammar.splitlines():
        name, _, body = line.partition(" ::= ")
        rules[name] = Parser(body).parse()
    return rules


def text_of(grammar: str, draw: Draw) -> str:
    """One text; ``draw`` is hypothesis's."""
    rules = parse(grammar)
    parts: list[str] = []

    def below(limit: int) -> int:
        return draw(strategies.integers(0, limit - 1))

    def write(node: Node, depth: int) -> None:
        match node:
            case Literal(text):
                parts.append(text)
            case Characters(choices):
                parts.append(choices[below(len(choices))])
            case Name(name):
                write(rules[name], depth + 1)
            case Sequence(items):
                for item in items:
                    write(item, depth + 1)
            case Choice(options):
                plain = [option for option in options if depth < DEPTH or not _recurses(option)]
                options = tuple(plain) or options
                write(options[below(len(options))], depth + 1)
            case Repeat(item, least, most):
                more = 2 if most is None else min(2, most - least)
                for _ in range(least + (below(more + 1) if depth < DEPTH else 0)):
                    write(item, depth + 1)

    write(rules["root"], 0)
    return "".join(parts)


def _recurses(node: Node) -> bool:
    return node == Sequence((Name("object"),)) or node == Sequence((Name("array"),))


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: ESCAPES.get(match[1], match[1]), text)


def _members(body: str) -> str:
    negated, body = body.startswith("^"), body.removeprefix("^")
    found: list[str] = []
    atoms = re.findall(r"\\x[0-9A-F]{2}|\\U[0-9A-F]{8}|\\.|.", body, re.DOTALL)
    characters = [_atom(atom) for atom in atoms]
    position = 0
    while position < len(characters):
        if position + 2 < len(characters) and atoms[position + 1] == "-":
            first, last = ord(characters[position]), ord(characters[position + 2])
            found += map(chr, range(first, last + 1))
            position += 3
        else:
            found.append(characters[position])
            position += 1
    return "".join(c for c in ANYTHING if c not in found) if negated else "".join(found)


def _atom(atom: str) -> str:
    if atom.startswith(("\\x", "\\U")):
        return chr(int(atom[2:], 16))
    return _unescaped(atom)
