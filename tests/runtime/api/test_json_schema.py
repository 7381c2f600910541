"""Every text that the grammar of a schema allows is JSON that the schema allows."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llama_runtime.api.gbnf import Grammar, integer_between
from llama_runtime.api.json_schema import SchemaError, add_schema
from tests.runtime.api.gbnf_texts import text_of


def grammar_of(schema: Any, *, strict: bool = True) -> str:
    grammar = Grammar()
    return grammar.render(add_schema(grammar, schema, strict=strict))


def names() -> st.SearchStrategy[str]:
    return st.text(alphabet='ab "\\é-', max_size=4)


def leaves() -> st.SearchStrategy[dict[str, Any]]:
    bounds = st.tuples(st.integers(-300, 300), st.integers(0, 400))
    lengths = st.tuples(st.integers(0, 3), st.integers(0, 3))
    return st.one_of(
        st.sampled_from(["string", "integer", "number", "boolean", "null"]).map(
            lambda kind: {"type": kind}
        ),
        st.just({}),
        st.just({"type": ["string", "null"], "title": "either"}),
        st.lists(st.one_of(st.none(), st.booleans(), st.integers(), names()), min_size=1).map(
            lambda values: {"enum": values}
        ),
        names().map(lambda value: {"const": {"key": [value]}}),
        st.sampled_from(["date", "time", "date-time", "uuid"]).map(
            lambda kind: {"type": "string", "format": kind}
        ),
        bounds.map(lambda b: {"type": "integer", "minimum": b[0], "maximum": b[0] + b[1]}),
        bounds.map(lambda b: {"type": "integer", "exclusiveMinimum": b[0]}),
        bounds.map(lambda b: {"type": "integer", "exclusiveMaximum": b[0]}),
        lengths.map(lambda n: {"type": "string", "minLength": n[0], "maxLength": sum(n)}),
    )


def compounds(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    properties = st.dictionaries(names(), inner, max_size=4)

    def as_object(values: tuple[dict[str, Any], int, Any]) -> dict[str, Any]:
        fields, wanted, additional = values
        required = [name for i, name in enumerate(fields) if wanted >> i & 1]
        return {
            "type": "object",
            "properties": fields,
            "required": required,
            "additionalProperties": additional,
        }

    return st.one_of(
        st.tuples(properties, st.integers(0, 15), st.booleans()).map(as_object),
        st.tuples(inner, st.integers(0, 2), st.integers(0, 2)).map(
            lambda v: {"type": "array", "items": v[0], "minItems": v[1], "maxItems": v[1] + v[2]}
        ),
        st.tuples(st.lists(inner, min_size=1, max_size=2), st.one_of(inner, st.just(False))).map(
            lambda v: {"type": "array", "prefixItems": v[0], "items": v[1]}
        ),
        st.lists(inner, min_size=1, max_size=3).map(lambda options: {"anyOf": options}),
    )


def check(schema: Any, text: str) -> Any:
    value = json.loads(text)
    validator = jsonschema.Draft202012Validator
    validator(schema, format_checker=validator.FORMAT_CHECKER).validate(value)
    return value


@settings(deadline=None, max_examples=200)
@given(st.data(), st.recursive(leaves(), compounds, max_leaves=6))
def test_what_a_grammar_allows_the_schema_allows(data: st.DataObject, schema: Any) -> None:
    check(schema, text_of(grammar_of(schema), data.draw))


REFERRING = {
    "type": "object",
    "properties": {"left": {"$ref": "#/$defs/tree"}, "size": {"$ref": "#/$defs/size"}},
    "required": ["left", "size"],
    "$defs": {
        "size": {"type": "integer", "minimum": 1},
        "tree": {
            "anyOf": [
                {"type": "null"},
                {"type": "object", "properties": {"left": {"$ref": "#/$defs/tree"}}},
            ]
        },
    },
}
MERGING = {
    "allOf": [
        {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
        {"$ref": "#/$defs/more"},
    ],
    "$defs": {"more": {"properties": {"b": {"type": "boolean"}}, "required": ["b"]}},
}
BESIDE = {
    "type": "object",
    "properties": {"kind": {"type": "string"}},
    "required": ["kind"],
    "anyOf": [
        {"properties": {"x": {"type": "null"}}, "required": ["x"]},
        {"properties": {"y": {"type": "null"}}, "required": ["y"]},
    ],
}


@pytest.mark.parametrize("schema", [REFERRING, MERGING, BESIDE], ids=["refs", "allOf", "beside"])
@settings(deadline=None, max_examples=50)
@given(data=st.data())
def test_references_and_unions(schema: Any, data: st.DataObject) -> None:
    check(schema, text_of(grammar_of(schema), data.draw))


@settings(deadline=None, max_examples=50)
@given(data=st.data())
def test_required_properties_are_all_there(data: st.DataObject) -> None:
    value = check(MERGING, text_of(grammar_of(MERGING), data.draw))
    assert list(value) == ["a", "b"]


@given(
    low=st.one_of(st.none(), st.integers(-(10**4), 10**4)),
    high=st.one_of(st.none(), st.integers(-(10**4), 10**4)),
    value=st.integers(-(2 * 10**4), 2 * 10**4),
)
def test_integers_are_allowed_if_and_only_if_they_are_in_between(
    low: int | None, high: int | None, value: int
) -> None:
    inside = (low is None or low <= value) and (high is None or value <= high)
    if low is not None and high is not None and low > high:
        with pytest.raises(ValueError, match="no integer"):
            integer_between(low, high)
        return
    # The notation of such a rule is that of a regular expression, but for spaces and quotes.
    pattern = integer_between(low, high).replace('"', "").replace(" ", "")
    assert bool(re.fullmatch(pattern, str(value))) == inside


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "string", "pattern": "^a$"}, "'pattern'"),
        ({"type": "array", "uniqueItems": True}, "'uniqueItems'"),
        ({"type": "number", "minimum": 0}, "'minimum'"),
        ({"not": {}}, "'not'"),
        ({"allOf": [{"type": "string"}, {"type": "null"}]}, "two different 'type'"),
    ],
)
def test_what_cannot_be_enforced_is_refused_only_when_strict(schema: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        grammar_of(schema)
    assert grammar_of(schema, strict=False)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "hiccup"},
        {"type": 123},
        {"type": []},
        {"enum": []},
        {"anyOf": []},
        {"properties": []},
        {"properties": {"a": 5}},
        {"type": "object", "properties": {}, "required": ["a"], "additionalProperties": False},
        {"type": "array", "minItems": 3, "maxItems": 2},
        {"type": "array", "maxItems": 10**9},
        {"type": "array", "minItems": -1},
        {"type": "string", "minLength": 10**9},
        {"type": "integer", "minimum": 2, "maximum": 1},
        {"type": "integer", "minimum": 10**40},
        {"type": "integer", "minimum": "1"},
        {"$ref": "#/$defs/nowhere"},
        {"$ref": "https://example.com/schema"},
        {"$ref": "#/allOf/0", "allOf": [{"$ref": "#"}]},
        {"items": {"items": {"$ref": 5}}},
    ],
)
def test_schemas_that_are_wrong(schema: Any) -> None:
    with pytest.raises(SchemaError):
        grammar_of(schema, strict=False)


def test_a_schema_can_be_too_deep_or_too_large() -> None:
    deep: dict[str, Any] = {"type": "null"}
    for _ in range(100):
        deep = {"type": "array", "items": deep}
    with pytest.raises(SchemaError, match="deep"):
        grammar_of(deep)
    large = {"properties": {f"p{i}": {"type": "null"} for i in range(3000)}}
    with pytest.raises(ValueError, match="smaller"):
        grammar_of(large)


@settings(deadline=None, max_examples=100)
@given(st.data(), st.text(st.sampled_from('\\"b\n\x7f'), min_size=1, max_size=4))
def test_an_extra_key_is_whole_where_a_named_one_needs_escapes(
    data: st.DataObject, key: str
) -> None:
    """Half of an escape is no JSON."""
    schema = {
        "type": "object",
        "properties": {key: {"type": "string"}},
        "additionalProperties": {"type": "integer"},
    }
    check(schema, text_of(grammar_of(schema), data.draw))


@pytest.mark.parametrize("keyword", ["allOf", "anyOf"])
def test_definitions_that_double_at_each_reference_are_refused(keyword: str) -> None:
    """2^40 schemas in 3 kB: counted, not tried."""
    definitions: dict[str, Any] = {
        f"d{i}": {keyword: [{"$ref": f"#/$defs/d{i + 1}"}] * 2, "title": "x"} for i in range(40)
    }
    definitions["d40"] = {"type": "object", "properties": {"a": {"type": "string"}}}
    schema = {"$defs": definitions, "allOf": [{"$ref": "#/$defs/d0"}, {"$ref": "#/$defs/d0"}]}
    with pytest.raises(ValueError, match=r"flatten it|make it smaller"):
        grammar_of(schema, strict=False)
