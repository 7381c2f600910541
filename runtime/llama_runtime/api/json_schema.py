"""From a JSON schema to a grammar under which a model can only write what it allows.

Objects write their properties in the order of the schema; without
``additionalProperties`` an object has only those it names. ``oneOf`` is read as
``anyOf``. What a grammar can't express is refused when the schema is strict, and
left out when it is not, as OpenAI's ``strict`` means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llama_runtime.api.gbnf import (
    Grammar,
    alternatives,
    integer_between,
    json_literal,
    separated,
    string_except,
)

MAX_DEPTH = 64
MAX_MERGES = 5000
LARGEST_BOUND = 10**15
MAX_REPETITION = 2000  # llama.cpp refuses more (src/llama-grammar.cpp)

FORMATS = {
    "date": r'"\"" date "\""',
    "time": r'"\"" time "\""',
    "date-time": r'"\"" date "T" time "\""',
    "uuid": r'"\"" [0-9a-fA-F]{8} ("-" [0-9a-fA-F]{4}){3} "-" [0-9a-fA-F]{12} "\""',
}
FORMAT_RULES = {
    # No 29 February: whether a year has one is more than a grammar knows.
    "date": (
        '[1-9] [0-9]{3} "-" (("0" [13578] | "1" [02]) "-" ("0" [1-9] | [12] [0-9] | "3" [01]) '
        '| ("0" [469] | "11") "-" ("0" [1-9] | [12] [0-9] | "30") '
        '| "02-" ("0" [1-9] | "1" [0-9] | "2" [0-8]))'
    ),
    "time": (
        '([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9] ":" [0-5] [0-9] ("." [0-9]{1,6})? '
        '("Z" | [-+] ([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9])'
    ),
}
NOT_EXPRESSED = (
    *("not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies"),
    *("patternProperties", "propertyNames", "minProperties", "maxProperties"),
    *("unevaluatedProperties", "unevaluatedItems", "uniqueItems"),
    *("contains", "minContains", "maxContains", "multipleOf", "pattern"),
)
NUMBER_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
IMPLIED_TYPES = {
    "object": ("properties", "required", "additionalProperties"),
    "array": ("items", "prefixItems", "minItems", "maxItems"),
    "string": ("minLength", "maxLength", "format"),
}
CONSTRAINTS = {
    *NOT_EXPRESSED,
    *NUMBER_BOUNDS,
    *(keyword for keywords in IMPLIED_TYPES.values() for keyword in keywords),
    *("type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"),
}

OR_NOT_STRICT = "remove it, or set strict to false"

Schema = Mapping[str, Any]


class SchemaError(ValueError):
    """The schema is wrong or asks for what a grammar can't express; the message is for clients."""


def add_schema(grammar: Grammar, schema: Schema, *, strict: bool, name: str = "answer") -> str:
    """Adds the rules of ``schema`` and returns the name of its own; raises SchemaError."""
    return _Converter(grammar, schema, strict).rule(schema, name)


class _Converter:
    def __init__(self, grammar: Grammar, document: Schema, strict: bool) -> None:
        self._grammar = grammar
        self._document = document
        self._strict = strict
        self._references: dict[str, str] = {}
        self._formats: dict[str, str] = {}
        self._depth = 0
        self._merges = 0

    def rule(self, schema: Any, name: str) -> str:
        return self._grammar.add(name, self._body(schema, name))

    def _body(self, schema: Any, name: str) -> str:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise SchemaError(f"the schema is nested more than {MAX_DEPTH} deep: flatten it")
        try:
            return self._dispatch(schema, name)
        finally:
            self._depth -= 1

    def _dispatch(self, schema: Any, name: str) -> str:
        if schema is True:
            return "value"
        if not isinstance(schema, dict):
            raise SchemaError(f"a schema must be an object, not {schema!r}")
        constraints = {key: value for key, value in schema.items() if key in CONSTRAINTS}
        if self._strict:
            self._refuse_unexpressed(constraints)
        if "$ref" in constraints:
            return self._reference(constraints, name)
        if "allOf" in constraints:
            return self._dispatch(self._merged(constraints), name)
        for union in ("anyOf", "oneOf"):
            if union in constraints:
                return self._union(constraints, union, name)
        if "const" in constraints:
            return self._constant(constraints["const"], name)
        if "enum" in constraints:
            values = _listed(constraints["enum"], "enum")
            return alternatives(
                self._constant(value, f"{name}-{i}") for i, value in enumerate(values)
            )
        return self._typed(constraints, name)

    def _refuse_unexpressed(self, schema: Schema) -> None:
        for keyword in NOT_EXPRESSED:
            if keyword in schema and schema[keyword] not in (False, None):
                raise SchemaError(f"'{keyword}' can't be enforced: {OR_NOT_STRICT}")
        bounds = [keyword for keyword in NUMBER_BOUNDS if keyword in schema]
        if bounds and schema.get("type") != "integer":
            raise SchemaError(f"'{bounds[0]}' can only be enforced for integers: {OR_NOT_STRICT}")

    def _reference(self, schema: Schema, name: str) -> str:
        reference = schema["$ref"]
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise SchemaError(f"$ref {reference!r} must point into the schema, as in #/$defs/name")
        if len(schema) > 1:
            return self._dispatch(self._merged({"allOf": [schema]}), name)
        if reference not in self._references:
            target = self._grammar.reserve(reference.rpartition("/")[2] or "document")
            self._references[reference] = target
            self._grammar.define(target, self._body(self._resolve(reference), target))
        return self._references[reference]

    def _resolve(self, reference: str) -> Schema:
        target: Any = self._document
        for part in filter(None, reference.removeprefix("#").split("/")):
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(target, dict) or key not in target:
                raise SchemaError(f"$ref {reference!r} points to nothing: define it under $defs")
            target = target[key]
        if not isinstance(target, dict):
            raise SchemaError(f"$ref {reference!r} does not point to a schema")
        return target

    def _merged(self, schema: Schema, seen: frozenset[str] = frozenset()) -> dict[str, Any]:
        """allOf, $ref and what stands beside them, as one schema."""
        self._merges += 1
        if self._merges > MAX_MERGES:
            # Two references in each of n definitions are 2^n schemas to merge.
            raise SchemaError(f"allOf and $ref lead to more than {MAX_MERGES} schemas: flatten it")
        parts: list[Any] = [{k: v for k, v in schema.items() if k not in ("allOf", "$ref")}]
        if "$ref" in schema:
            if schema["$ref"] in seen:
                raise SchemaError(f"$ref {schema['$ref']!r} refers to itself: break the circle")
            parts.append(self._merged(self._resolve(schema["$ref"]), seen | {schema["$ref"]}))
        for part in _listed(schema["allOf"], "allOf") if "allOf" in schema else ():
            if not isinstance(part, dict):
                raise SchemaError("allOf must be a list of objects")
            parts.append(self._merged(part, seen))
        merged: dict[str, Any] = {}
        for part in parts:
            for key, value in part.items():
                merged[key] = self._both(key, merged[key], value) if key in merged else value
        return merged

    def _both(self, key: str, one: Any, other: Any) -> Any:
        if key == "properties":
            shared = {name: {"allOf": [one[name], other[name]]} for name in one.keys() & other}
            return {**one, **other, **shared}
        if key == "required":
            return list(dict.fromkeys([*one, *other]))
        if one != other and key in CONSTRAINTS and self._strict:
            raise SchemaError(
                f"allOf asks for two different '{key}': merge them, or set strict to false"
            )
        return one

    def _union(self, schema: dict[str, Any], union: str, name: str) -> str:
        beside = {key: value for key, value in schema.items() if key != union}
        options = _listed(schema[union], union)
        if beside:
            options = [{"allOf": [beside, option]} for option in options]
        bodies = (self.rule(option, f"{name}-{i}") for i, option in enumerate(options))
        return alternatives(bodies)

    def _constant(self, value: Any, name: str) -> str:
        """An object or a list has the same pieces as one that is described.

        As one text it would begin as any other object does, and the longest match would take
        it for that text until it is too late.
        """
        if isinstance(value, dict):
            members = {key: {"const": member} for key, member in value.items()}
            return self._object(
                {"properties": members, "required": [*members], "additionalProperties": False}, name
            )
        if isinstance(value, list):
            return self._array(
                {"prefixItems": [{"const": item} for item in value], "items": False}, name
            )
        return json_literal(value)

    def _typed(self, schema: Schema, name: str) -> str:
        match schema.get("type", _implied_type(schema)):
            case None:
                return "value"
            case list() as types:
                options = [{**schema, "type": each} for each in _listed(types, "type")]
                return alternatives(self._typed(option, name) for option in options)
            case "object":
                return self._object(schema, name)
            case "array":
                return self._array(schema, name)
            case "string":
                return self._string(schema)
            case "integer":
                return self._integer(schema)
            case "number":
                return "number"
            case "boolean":
                return '("true" | "false")'
            case "null":
                return '"null"'
            case other:
                raise SchemaError(f"{other!r} is no type of JSON Schema")

    def _object(self, schema: Schema, name: str) -> str:
        properties = schema.get("properties", {})
        additional = schema.get("additionalProperties", "properties" not in schema)
        required = schema.get("required", [])
        if not isinstance(properties, dict) or not isinstance(required, list):
            raise SchemaError("properties must be an object, and required a list")
        if not properties and additional is True and not required:
            return "object"
        if additional is False:
            self._refuse_unknown(required, properties)
        members = [
            (self._member(json_literal(key), value, f"{name}-{key}"), key in required)
            for key, value in properties.items()
        ]
        members += [
            (self._member(json_literal(key), additional, f"{name}-{key}"), True)
            for key in required
            if key not in properties and additional is not False
        ]
        more = None
        if additional is not False:
            key = self._grammar.add(f"{name}-key", string_except([*properties, *required]))
            more = self._member(key, additional, f"{name}-more")
        return '"{" space ' + self._members(members, more, name) + ' "}"'

    def _refuse_unknown(self, required: Sequence[str], properties: Schema) -> None:
        for key in required:
            if key not in properties:
                raise SchemaError(f"'{key}' is required and not allowed: add it to properties")

    def _member(self, key: str, schema: Any, name: str) -> str:
        value = self.rule(schema, name)
        return self._grammar.add(f"{name}-member", f'{key} ":" space {value}')

    def _members(self, members: list[tuple[str, bool]], more: str | None, name: str) -> str:
        """Members in their order, commas only between those that are there."""
        following = f'("," space {more})*' if more else '""'
        first = f'({more} ("," space {more})* space)?' if more else '""'
        for member, is_required in reversed(members):
            rest = self._grammar.add(f"{name}-rest", following)
            here = f"{member} {rest} space"
            first = here if is_required else f"({here} | {first})"
            first = self._grammar.add(f"{name}-first", first)
            following = f'("," space {member}){"" if is_required else "?"} {rest}'
        return first

    def _array(self, schema: Schema, name: str) -> str:
        fixed = [
            self.rule(item, f"{name}-{i}") for i, item in enumerate(schema.get("prefixItems", []))
        ]
        least, most = _bounds(schema, "minItems", "maxItems")
        items = schema.get("items", True)
        if fixed:
            least = max(least, len(fixed))
        if items is False or (most is not None and most <= len(fixed)):
            if least > len(fixed) or (most is not None and most < len(fixed)):
                raise SchemaError(
                    "an array's prefixItems, minItems and maxItems exclude each other"
                )
            return '"[" space ' + separated(fixed) + (' space "]"' if fixed else '"]"')
        item = self.rule(items, f"{name}-item")
        return '"[" space ' + _repeated(fixed, item, least, most) + ' "]"'

    def _string(self, schema: Schema) -> str:
        least, most = _bounds(schema, "minLength", "maxLength")
        if least or most is not None:
            return rf'"\"" char{_repetition(least, most)} "\""'
        kind = schema.get("format")
        if kind not in FORMATS:
            return "string"
        body = FORMATS[kind]
        for part, rule in FORMAT_RULES.items():
            if f" {part} " in body:
                if part not in self._formats:
                    self._formats[part] = self._grammar.add(f"{part}-text", rule)
                body = body.replace(f" {part} ", f" {self._formats[part]} ")
        return body

    def _integer(self, schema: Schema) -> str:
        lows = [_number(schema, "minimum", 0), _number(schema, "exclusiveMinimum", 1)]
        highs = [_number(schema, "maximum", 0), _number(schema, "exclusiveMaximum", -1)]
        low = max((bound for bound in lows if bound is not None), default=None)
        high = min((bound for bound in highs if bound is not None), default=None)
        if low is None and high is None:
            return "integer"
        try:
            return integer_between(low, high)
        except ValueError as error:
            raise SchemaError(str(error)) from None


def _implied_type(schema: Schema) -> str | None:
    for kind, keywords in IMPLIED_TYPES.items():
        if any(keyword in schema for keyword in keywords):
            return kind
    return None


def _listed(value: Any, keyword: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise SchemaError(f"'{keyword}' must be a list with something in it")
    return value


def _bounds(schema: Schema, low: str, high: str) -> tuple[int, int | None]:
    least, most = schema.get(low, 0), schema.get(high)
    for bound in (least, most):
        if bound is not None and not (type(bound) is int and 0 <= bound <= MAX_REPETITION):
            raise SchemaError(f"{low} and {high} must be integers from 0 to {MAX_REPETITION}")
    if most is not None and most < least:
        raise SchemaError(f"{low} {least} exceeds {high} {most}")
    return least, most


def _number(schema: Schema, keyword: str, step: int) -> int | None:
    """The integer bound; ``step`` is how far an exclusive bound keeps away."""
    bound = schema.get(keyword)
    if bound is None:
        return None
    if isinstance(bound, bool) or not isinstance(bound, int | float):
        raise SchemaError(f"'{keyword}' must be a number")
    if not -LARGEST_BOUND <= bound <= LARGEST_BOUND:
        raise SchemaError(f"'{keyword}' must be within ±{LARGEST_BOUND}")
    whole = int(bound // 1)
    if whole == bound:
        return whole + step
    return whole + 1 if "inimum" in keyword else whole


def _repetition(least: int, most: int | None) -> str:
    return f"{{{least},{'' if most is None else most}}}"


def _repeated(fixed: list[str], item: str, least: int, most: int | None) -> str:
    """``fixed`` items, then as many of ``item`` as bring them to ``least`` … ``most``."""
    if fixed:
        rest = _repetition(least - len(fixed), None if most is None else most - len(fixed))
        return f'{separated(fixed)} ("," space {item}){rest} space'
    further = _repetition(max(0, least - 1), None if most is None else most - 1)
    some = f'{item} ("," space {item}){further} space'
    return some if least else f"({some})?"
