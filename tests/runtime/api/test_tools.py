"""Tool calls: read out of text, forced by a grammar, in OpenAI's shape."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llama_runtime.api.schema import Message, Tool
from llama_runtime.api.tools import ToolCall, ToolCallReader, for_template, forced_calls
from tests.runtime.api.fake_engine import FakeEngine, Script, text_script
from tests.runtime.api.gbnf_texts import text_of

HERMES = (
    "{% if tools %}<tools>{{ tools | tojson }}</tools> Answer in <tool_call>{% endif %}"
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}"
    "{% for call in m.tool_calls %}{{ call.function.arguments | tojson }}{% endfor %}{% endfor %}"
)
SAY = [{"role": "user", "content": "How is the weather?"}]
WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Says how the weather is.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    },
}
CLOCK = {"type": "function", "function": {"name": "get_time"}}
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Köln"}}\n</tool_call>'


def read_in_pieces(text: str, size: int) -> list[str | ToolCall]:
    reader = ToolCallReader()
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    parts = [part for piece in pieces for part in reader.feed(piece)]
    return [*parts, *reader.finish()]


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_text_and_calls_are_told_apart_however_they_come(size: int) -> None:
    parts = read_in_pieces(f"Let me look.\n{CALL}\n{CALL}\n", size)
    text = "".join(part for part in parts if isinstance(part, str))
    calls = [part for part in parts if isinstance(part, ToolCall)]
    assert text == "Let me look."
    assert [call.name for call in calls] == ["get_weather"] * 2
    assert [json.loads(call.arguments) for call in calls] == [{"city": "Köln"}] * 2
    assert len({call.id for call in calls}) == 2


@given(st.text(alphabet="<tool_cal>/ \n{}x"), st.integers(1, 9))
def test_text_without_a_call_comes_out_as_it_went_in(text: str, size: int) -> None:
    parts = read_in_pieces(text, size)
    assert all(isinstance(part, str) for part in parts)
    assert "".join(map(str, parts)) == text


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>no JSON</tool_call> after",
        '<tool_call>{"arguments": {}}</tool_call>',
        '<tool_call>{"name": "f", "argum',
        "<tool_call>",
    ],
)
def test_what_is_no_call_stays_text(text: str) -> None:
    assert "".join(map(str, read_in_pieces(text, 4))) == text


def test_a_call_without_its_end_is_a_call() -> None:
    [call] = read_in_pieces(CALL.removesuffix("</tool_call>"), 5)
    assert isinstance(call, ToolCall)


@given(st.data(), st.booleans())
def test_a_forced_answer_is_a_call_that_the_schema_allows(
    data: st.DataObject, several: bool
) -> None:
    tools = [Tool.model_validate(WEATHER), Tool.model_validate(CLOCK)]
    text = text_of(forced_calls(tools, several=several), data.draw)
    calls = read_in_pieces(text, 50)
    assert len(calls) >= 1
    assert several or len(calls) == 1
    for call in calls:
        assert isinstance(call, ToolCall)
        arguments = json.loads(call.arguments)
        if call.name == "get_time":
            assert arguments == {}
        else:
            assert call.name == "get_weather"
            assert isinstance(arguments["city"], str)


def test_arguments_go_to_the_template_as_an_object() -> None:
    function = {"name": "f", "arguments": '{"a": 1}'}
    message = Message.model_validate(
        {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": function}]}
    )
    plain = for_template(message)
    assert plain["tool_calls"][0]["function"]["arguments"] == {"a": 1}
    assert plain["content"] == ""


async def test_a_call_has_openai_shape(start: Any) -> None:
    engine = FakeEngine(text_script(f"One moment.\n{CALL}"), template=HERMES)
    served = await start(engine)
    answer = await served.openai.chat.completions.create(
        model="chat", messages=SAY, tools=[WEATHER]
    )
    [choice] = answer.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "One moment."
    [call] = choice.message.tool_calls
    assert (call.type, call.function.name) == ("function", "get_weather")
    assert json.loads(call.function.arguments) == {"city": "Köln"}
    prompt = bytes(token for token in engine.generations[0].prompt if token < 256).decode()
    assert '"name": "get_weather"' in prompt
    assert engine.generations[0].sampling.grammar is None


async def test_a_call_is_streamed_whole(start: Any) -> None:
    served = await start(FakeEngine(text_script(f"Hm. {CALL}\n{CALL}"), template=HERMES))
    stream = await served.openai.chat.completions.create(
        model="chat", messages=SAY, tools=[WEATHER], stream=True
    )
    text = ""
    calls: list[Any] = []
    reasons: list[str] = []
    async for chunk in stream:
        choice = chunk.choices[0]
        text += choice.delta.content or ""
        calls += choice.delta.tool_calls or []
        reasons += [choice.finish_reason] if choice.finish_reason else []
    assert text == "Hm."
    assert [call.index for call in calls] == [0, 1]
    assert all(json.loads(call.function.arguments) == {"city": "Köln"} for call in calls)
    assert all(call.id and call.type == "function" for call in calls)
    assert reasons == ["tool_calls"]


async def test_a_call_alone_has_no_content(start: Any) -> None:
    served = await start(FakeEngine(text_script(CALL), template=HERMES))
    answer = await served.openai.chat.completions.create(
        model="chat", messages=SAY, tools=[WEATHER]
    )
    assert answer.choices[0].message.content is None


async def test_markers_that_are_special_tokens_are_seen(start: Any) -> None:
    inner = CALL.removeprefix("<tool_call>").removesuffix("</tool_call>").encode()
    engine = FakeEngine(Script([258, *inner, 259]), template=HERMES, special=(256, 257, 258, 259))
    served = await start(engine)
    answer = await served.openai.chat.completions.create(
        model="chat", messages=SAY, tools=[WEATHER]
    )
    assert answer.choices[0].message.tool_calls[0].function.name == "get_weather"


async def test_a_call_cut_by_the_limit_is_text_and_length(start: Any) -> None:
    served = await start(FakeEngine(text_script(CALL), template=HERMES))
    answer = await served.openai.chat.completions.create(
        model="chat", messages=SAY, tools=[WEATHER], max_tokens=20
    )
    assert answer.choices[0].finish_reason == "length"
    assert answer.choices[0].message.content == CALL[:20]
    assert answer.choices[0].message.tool_calls is None


async def test_tool_results_go_back(start: Any) -> None:
    engine = FakeEngine(template=HERMES)
    served = await start(engine)
    function = {"name": "get_weather", "arguments": '{"city": "Köln"}'}
    await served.openai.chat.completions.create(
        model="chat",
        messages=[
            *SAY,
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "Rain."},
        ],
        tools=[WEATHER],
    )
    prompt = bytes(token for token in engine.generations[0].prompt if token < 256).decode()
    assert '[assistant]{"city": "Köln"}[tool]Rain.' in prompt


@pytest.mark.parametrize(
    ("choice", "names", "parallel"),
    [
        ("required", {"get_weather", "get_time"}, True),
        ({"type": "function", "function": {"name": "get_time"}}, {"get_time"}, False),
    ],
)
async def test_a_forced_choice_is_a_grammar(
    start: Any, choice: object, names: set[str], parallel: bool
) -> None:
    engine = FakeEngine(template=HERMES)
    served = await start(engine)
    await served.openai.chat.completions.create(
        model="chat", messages=SAY, tools=[WEATHER, CLOCK], tool_choice=choice
    )
    grammar = engine.generations[0].sampling.grammar or ""
    assert {name for name in ("get_weather", "get_time") if name in grammar} == names
    assert ("call)*" in grammar) == parallel


async def test_parallel_calls_can_be_forbidden(start: Any) -> None:
    engine = FakeEngine(template=HERMES)
    served = await start(engine)
    await served.openai.chat.completions.create(
        model="chat",
        messages=SAY,
        tools=[WEATHER],
        tool_choice="required",
        parallel_tool_calls=False,
    )
    assert "call)*" not in (engine.generations[0].sampling.grammar or "call)*")


async def test_with_tool_choice_none_the_model_hears_of_no_tools(start: Any) -> None:
    engine = FakeEngine(text_script(CALL), template=HERMES)
    served = await start(engine)
    answer = await served.openai.chat.completions.create(
        model="chat", messages=SAY, tools=[WEATHER], tool_choice="none"
    )
    assert answer.choices[0].message.content == CALL
    assert b"get_weather" not in bytes(t for t in engine.generations[0].prompt if t < 256)


@pytest.mark.parametrize(
    ("template", "changes", "message"),
    [
        ("{{ messages[0].content }}", {}, "knows no tools"),
        ("{{ tools }}{{ messages[0].content }}", {}, "not understood"),
        ("{{ tools }}<tool_call><function=x>", {}, "not understood"),
        (HERMES, {"tools": [], "tool_choice": "required"}, "needs tools"),
        (
            HERMES,
            {"tool_choice": {"type": "function", "function": {"name": "nothing"}}},
            "not in tools",
        ),
        (HERMES, {"response_format": {"type": "json_object"}}, "exclude"),
        (HERMES, {"tools": [{"type": "function", "function": {"name": "a b"}}]}, "pattern"),
        (HERMES, {"tools": [{"type": "custom", "custom": {"name": "a"}}]}, "function"),
    ],
)
async def test_what_cannot_be_called_is_refused(
    start: Any, template: str, changes: dict[str, Any], message: str
) -> None:
    served = await start(FakeEngine(template=template))
    arguments = {"model": "chat", "messages": SAY, "tools": [WEATHER]} | changes
    with pytest.raises(openai.BadRequestError, match=message):
        await served.openai.chat.completions.create(**arguments)


async def test_a_strict_tool_with_what_cannot_be_enforced_is_refused(start: Any) -> None:
    served = await start(FakeEngine(template=HERMES))
    parameters = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^x"}}}
    function = {"name": "f", "strict": True, "parameters": parameters}
    tools = [{"type": "function", "function": function}]
    with pytest.raises(openai.BadRequestError, match="pattern"):
        await served.openai.chat.completions.create(
            model="chat", messages=SAY, tools=tools, tool_choice="required"
        )
