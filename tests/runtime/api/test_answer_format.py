"""response_format and grammar."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llama_runtime.api.answer_format import answer_grammar
from llama_runtime.api.errors import APIError
from llama_runtime.api.schema import ResponseFormat
from tests.runtime.api.fake_engine import FakeEngine
from tests.runtime.api.gbnf_texts import text_of

SAY = [{"role": "user", "content": "Say it."}]


def format_of(value: dict[str, Any]) -> ResponseFormat:
    return ResponseFormat.model_validate(value)


@given(st.data())
def test_json_object_is_any_object(data: st.DataObject) -> None:
    grammar = answer_grammar(format_of({"type": "json_object"}), None)
    assert grammar is not None
    assert isinstance(json.loads(text_of(grammar, data.draw)), dict)


def test_text_and_nothing_have_no_grammar() -> None:
    assert answer_grammar(None, None) is None
    assert answer_grammar(format_of({"type": "text"}), None) is None


@pytest.mark.parametrize("path", ["chat/completions", "completions"])
async def test_a_schema_reaches_the_engine(start: Any, path: str) -> None:
    engine = FakeEngine()
    served = await start(engine)
    schema = {"type": "object", "properties": {"age": {"type": "integer"}}}
    body = {
        "messages" if "chat" in path else "prompt": SAY if "chat" in path else "x",
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}},
    }
    response = await served.http.post(f"/v1/{path}", json=body)
    assert response.status_code == 200
    assert '"\\"age\\""' in (engine.generations[0].sampling.grammar or "")


async def test_a_grammar_reaches_the_engine(start: Any) -> None:
    engine = FakeEngine()
    served = await start(engine)
    await served.openai.chat.completions.create(
        model="chat", messages=SAY, extra_body={"grammar": 'root ::= "yes" | "no"'}
    )
    assert engine.generations[0].sampling.grammar == 'root ::= "yes" | "no"'


@pytest.mark.parametrize(
    "response_format",
    [
        {"type": "json_schema", "json_schema": {"name": "x"}},
        {"type": "json_object", "schema": {"type": "hiccup"}},
        {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": 5}}},
        {
            "type": "json_schema",
            "json_schema": {
                "name": "x",
                "strict": True,
                "schema": {"type": "string", "pattern": "a"},
            },
        },
    ],
)
async def test_a_schema_that_cannot_be_used_is_refused(
    start: Any, response_format: dict[str, Any]
) -> None:
    served = await start(FakeEngine())
    with pytest.raises(openai.BadRequestError) as caught:
        await served.openai.chat.completions.create(
            model="chat", messages=SAY, response_format=response_format
        )
    assert caught.value.param == "response_format"


@pytest.mark.parametrize(
    ("param", "request_fields"),
    [
        ("grammar", {"grammar": 'root ::= "a"'}),
        ("response_format", {"response_format": {"type": "json_object"}}),
    ],
)
@pytest.mark.parametrize("path", ["chat/completions", "completions"])
async def test_a_grammar_that_cannot_be_used_names_where_it_came_from(
    start: Any, path: str, param: str, request_fields: dict[str, Any]
) -> None:
    engine = FakeEngine()
    engine.bad_grammar = "It is too much: make it smaller."
    served = await start(engine)
    body = {"messages": SAY} if "chat" in path else {"prompt": "x"}
    response = await served.http.post(f"/v1/{path}", json=body | request_fields)
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (400, param)
    assert "It is too much" in error["message"]
    assert not engine.generations


def test_grammar_and_response_format_exclude_each_other() -> None:
    with pytest.raises(APIError, match="exclude each other"):
        answer_grammar(format_of({"type": "json_object"}), 'root ::= "a"')
