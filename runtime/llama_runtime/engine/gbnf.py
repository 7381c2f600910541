"""GBNF, llama.cpp's notation of grammars, rewritten as Lark for llguidance.

What is bounded here can't exhaust the thread that compiles it: the length of the text, the
depth of groups, the number and the nesting of rules, the counts of repetitions.
(GBNF: grammars/README.md of llama.cpp. Lark: docs/syntax.md of llguidance.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from llama_runtime.engine.terminals import GROUP, Rule, terminals_of
from llama_runtime.generation import InvalidGeneration

MAX_GRAMMAR_BYTES = 128 * 1024
MAX_DEPTH = 128
MAX_RULES = 10_000
MAX_SYNTAX_RULES = 1000
MAX_NESTING = 1000
MAX_REPETITION = 2000  # llama.cpp's own limit (src/llama-grammar.cpp)

# Forced text would be tokenized anew at each step: quadratic, and the model chooses anyway.
HEADER = '%llguidance {"no_forcing": true}\n'

_TOKEN = re.compile(
    r"""(?P<space>[ \t]+|\#[^\r\n]*)|(?P<line>[\r\n]+)|(?P<define>::=)|(?P<sign>[()|.])
    |(?P<text>"(?:\\.|[^"\\])*")|(?P<set>\[(?:\\.|[^\]\\])*\])|(?P<repeat>[*+?]|\{[0-9,\s]*\})
    |(?P<name>[a-zA-Z0-9_-]+)""",
    re.VERBOSE | re.DOTALL,
)
_ATOM = re.compile(
    r"\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}|\\[^xuU]|[^\\]", re.DOTALL
)
_COUNT = re.compile(r"\{\s*(\d{1,9})\s*(?:(,)\s*(\d{1,9})?\s*)?\}")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def lark_of(grammar: str) -> str:
    """The same grammar for llguidance; raises InvalidGeneration.

    Some rules become terminals (engine/terminals.py), which are matched as regular
    expressions. They take the longest match.
    """
    if len(grammar.encode("utf-8", "replace")) > MAX_GRAMMAR_BYTES:
        raise _refused(f"it exceeds {MAX_GRAMMAR_BYTES} bytes")
    rules = _Parser(grammar).rules()
    if "root" not in rules:
        raise _refused("it has no rule named root")
    used = _reachable(rules)
    try:
        terminals = terminals_of({name: rules[name] for name in used}, MAX_NESTING)
    except RecursionError:
        raise _refused(f"its rules are nested more than {MAX_NESTING} deep") from None
    if len(used) - len(terminals) > MAX_SYNTAX_RULES:
        raise _refused(f"more than {MAX_SYNTAX_RULES} rules are not plain text")
    names = {
        name: f"{'T' if name in terminals else 'r'}{number}" for number, name in enumerate(used)
    }
    lines = [f"{names[name]}: {_rendered(rules[name], names)}" for name in used]
    return "\n".join([HEADER, f"start: {names['root']}", *lines, ""])


def _refused(why: str) -> InvalidGeneration:
    return InvalidGeneration(f"The grammar can't be used, {why}: correct it or make it smaller.")


def _rendered(rule: Rule, names: dict[str, str]) -> str:
    return " ".join(names[part[1:]] if part.startswith("=") else part for part in rule.body)


def _reachable(rules: dict[str, Rule]) -> list[str]:
    found, waiting = {"root": None}, ["root"]
    while waiting:
        for name in sorted(rules[waiting.pop()].references):
            if name not in rules:
                raise _refused(f"its rule {name} is not defined")
            if name not in found:
                found[name] = None
                waiting.append(name)
    return list(found)


class _Parser:
    """Groups, and what is repeated more than once, become rules of their own."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._next = 0
        self._rules: dict[str, Rule] = {}

    def rules(self) -> dict[str, Rule]:
        while self._peek(lines=True) != ("end", ""):
            name = self._take("name", lines=True)
            self._take("define")
            rule = self._choice(depth=0)
            if self._peek()[0] not in ("line", "end"):
                raise self._unexpected()
            self._add(name, rule)
        return self._rules

    def _add(self, name: str, rule: Rule) -> None:
        self._rules[name] = rule
        if len(self._rules) > MAX_RULES:
            raise _refused(f"it has more than {MAX_RULES} rules and groups")

    def _choice(self, depth: int) -> Rule:
        if depth > MAX_DEPTH:
            raise _refused(f"its groups are nested more than {MAX_DEPTH} deep")
        rule = Rule()
        self._sequence(rule, depth)
        while self._peek(lines=depth > 0) == ("sign", "|"):
            self._next += 1
            rule.body.append("|")
            self._sequence(rule, depth)
        return rule

    def _sequence(self, rule: Rule, depth: int) -> None:
        """It may begin on another line; inside of groups it may go on there, too."""
        start, line_end = len(rule.body), self._next
        kind, text = self._peek(lines=True)
        if kind == "name" and self._begins_a_rule():
            self._next, kind = line_end, "line"
        while kind in ("text", "set", "name") or text in ("(", "."):
            self._next += 1
            self._repeated(rule, self._item(kind, text, depth), lines=depth > 0)
            kind, text = self._peek(lines=depth > 0)
        if len(rule.body) == start:
            rule.body.append('""')

    def _begins_a_rule(self) -> bool:
        """After an empty alternative, what stands on the next line is another rule."""
        following = self._tokens[self._next + 1 : self._next + 2]
        return following == [("define", "::=")]

    def _item(self, kind: str, text: str, depth: int) -> str:
        match kind:
            case "text":
                return _literal(text[1:-1])
            case "set":
                return _set(text[1:-1])
            case "name":
                return "=" + text
            case _ if text == ".":
                return r"/[\s\S]/"
        group = self._choice(depth + 1)
        if self._peek(lines=True) != ("sign", ")"):
            raise self._unexpected()
        self._next += 1
        return self._own_rule(group)

    def _own_rule(self, rule: Rule) -> str:
        name = f"{GROUP}{len(self._rules)}"
        self._add(name, rule)
        return "=" + name

    def _repeated(self, rule: Rule, item: str, *, lines: bool) -> None:
        while True:
            kind, text = self._peek(lines=lines)
            rule.body.append(item)
            if kind != "repeat":
                return
            self._next += 1
            count = text if text in "*+?" else _count(text)
            if count in ("{0}", "{0,0}"):
                rule.body[-1], count = '""', "?"
            rule.body.append(count)
            if self._peek(lines=lines)[0] != "repeat":
                return
            inner = Rule(rule.body[-2:])
            del rule.body[-2:]
            item = self._own_rule(inner)

    def _peek(self, *, lines: bool = False) -> tuple[str, str]:
        while lines and self._next < len(self._tokens) and self._tokens[self._next][0] == "line":
            self._next += 1
        return self._tokens[self._next] if self._next < len(self._tokens) else ("end", "")

    def _take(self, kind: str, *, lines: bool = False) -> str:
        found, text = self._peek(lines=lines)
        if found != kind:
            raise self._unexpected()
        self._next += 1
        return text

    def _unexpected(self) -> InvalidGeneration:
        text = self._peek()[1].strip() or "its end"
        return _refused(f"as it is no GBNF at {text[:20]}")


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _refused(f"as it is no GBNF at {text[position : position + 20].strip()}")
        position = match.end()
        if match.lastgroup and match.lastgroup != "space":
            yield match.lastgroup, match.group()


def _count(text: str) -> str:
    match = _COUNT.fullmatch(text)
    least, most = (int(match[1]), int(match[3] or match[1])) if match else (1, 0)
    if not match or most < least:
        raise _refused(f"as {text} is no number of repetitions")
    if most > MAX_REPETITION:
        raise _refused(f"it repeats more than {MAX_REPETITION} times")
    return f"{{{least},{match[3] or ''}}}" if match[2] else f"{{{least}}}"


def _characters(text: str) -> list[str]:
    atoms = _ATOM.findall(text)
    if sum(map(len, atoms)) != len(text):
        raise _refused(f"as {text[:20]} has an escape that GBNF doesn't know")
    return [_character(atom) for atom in atoms]


def _character(atom: str) -> str:
    if atom[0] != "\\":
        return atom
    if atom[1] in "xuU":
        code = int(atom[2:], 16)
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise _refused(f"as {atom} is no character")
        return chr(code)
    return _ESCAPES.get(atom[1], atom[1])


def _escaped(character: str) -> str:
    """For a regular expression between slashes."""
    if character.isascii() and not character.isalnum():
        return f"\\x{ord(character):02x}"
    return character


def _literal(text: str) -> str:
    escaped = "".join(map(_escaped, _characters(text)))
    return f"/{escaped}/" if escaped else '""'


def _set(text: str) -> str:
    negated, text = ("^", text[1:]) if text.startswith("^") else ("", text)
    atoms = _ATOM.findall(text)
    characters = _characters(text)
    parts: list[str] = []
    position = 0
    while position < len(characters):
        first = _escaped(characters[position])
        if position + 2 < len(characters) and atoms[position + 1] == "-":
            if characters[position + 2] < characters[position]:
                raise _refused(f"as [{text[:20]}] has a range that runs backwards")
            first += "-" + _escaped(characters[position + 2])
            position += 2
        parts.append(first)
        position += 1
    if not parts:
        raise _refused("as it has a set of no characters")
    return f"/[{negated}{''.join(parts)}]/"
