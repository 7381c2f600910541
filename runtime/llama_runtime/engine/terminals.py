"""Which rules of a grammar are matched as text, and which are its syntax.

A parser that reads terminals takes the longest match: where one terminal begins like
another, what was read of the longer one is lost when it doesn't go on. A grammar without
recursion is one regular expression, which loses nothing. In any other one, a rule that
names a rule which may be absent, as white space may, is syntax: it has a structure, and
others begin like it. A string, a number or a key is text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

GROUP = "("
"""The names of rules that were groups begin so."""


@dataclass
class Rule:
    """``body`` has names of rules as =name, text as /regular expression/ or "", and signs.

    The signs are | and what says how often the part before is repeated.
    """

    body: list[str] = field(default_factory=list)

    @property
    def references(self) -> set[str]:
        return {part[1:] for part in self.body if part.startswith("=")}

    def sequences(self) -> Iterator[list[tuple[str, str]]]:
        """The alternatives, each as (part, how often; "" for once)."""
        sequence: list[tuple[str, str]] = []
        for part in self.body:
            if part == "|":
                yield sequence
                sequence = []
            elif part[0] in "?*+{":
                sequence[-1] = (sequence[-1][0], part)
            else:
                sequence.append((part, ""))
        yield sequence


def terminals_of(rules: dict[str, Rule], max_nesting: int) -> set[str]:
    """Names of the rules that are text; raises RecursionError when they are nested too deep."""
    flat = _leading_to_no(lambda name: False, rules, max_nesting)
    if len(flat) == len(rules):
        return flat
    absent = {name for name in _absent(rules) if not name.startswith(GROUP)}
    return flat & _leading_to_no(lambda name: bool(rules[name].references & absent), rules)


def _absent(rules: dict[str, Rule]) -> set[str]:
    """Rules that match nothing at all, too."""
    found: set[str] = set()
    users = _users(rules)
    waiting = list(rules)
    while waiting:
        name = waiting.pop()
        if name not in found and any(
            all(_may_be_absent(part, count, found) for part, count in sequence)
            for sequence in rules[name].sequences()
        ):
            found.add(name)
            waiting += users[name]
    return found


def _may_be_absent(part: str, count: str, absent: set[str]) -> bool:
    return count[:1] in ("?", "*") or count.startswith("{0") or part == '""' or part[1:] in absent


def _users(rules: dict[str, Rule]) -> dict[str, list[str]]:
    users: dict[str, list[str]] = {name: [] for name in rules}
    for name, rule in rules.items():
        for reference in rule.references:
            users[reference].append(name)
    return users


def _leading_to_no(
    unwanted: Callable[[str], bool], rules: dict[str, Rule], max_nesting: int | None = None
) -> set[str]:
    """Rules that are not unwanted and lead neither to one that is nor to themselves."""
    users = _users(rules)
    missing = {name: len(rule.references) for name, rule in rules.items()}
    levels = {name: 1 for name, count in missing.items() if not count and not unwanted(name)}
    ready = list(levels)
    found = set(ready)
    while ready:
        name = ready.pop()
        if max_nesting is not None and levels[name] > max_nesting:
            raise RecursionError
        for user in users[name]:
            missing[user] -= 1
            levels[user] = max(levels.get(user, 0), levels[name] + 1)
            if not missing[user] and not unwanted(user):
                found.add(user)
                ready.append(user)
    return found
