"""What every endpoint has in common: models, paths, bodies, unknown fields, headers."""

from __future__ import annotations

import threading
from typing import Any

import openai
import pytest

from llama_runtime.api import body as body_module
from llama_runtime.api import schema
from llama_runtime.generation import NotServing
from tests.runtime.api.fake_engine import FakeEngine

SAY = [{"role": "user", "content": "Say it."}]


async def test_models_lists_the_alias(start: Any) -> None:
    served = await start(FakeEngine())
    models = await served.openai.models.list()
    assert [model.id for model in models.data] == ["chat"]
    model = await served.openai.models.retrieve("chat")
    assert (model.object, model.owned_by) == ("model", "llama-runtime")


@pytest.mark.parametrize("path", ["chat/completions", "completions", "embeddings"])
async def test_another_model_is_not_found(start: Any, path: str) -> None:
    served = await start(FakeEngine())
    body = {"model": "gpt", "messages": SAY, "prompt": "x", "input": "x"}
    needed = {"chat/completions": "messages", "completions": "prompt", "embeddings": "input"}
    body = {key: value for key, value in body.items() if key in ("model", needed[path])}
    response = await served.http.post(f"/v1/{path}", json=body)
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "model_not_found"
    assert "'chat'" in response.json()["error"]["message"]


async def test_retrieving_another_model_is_not_found(start: Any) -> None:
    served = await start(FakeEngine())
    with pytest.raises(openai.NotFoundError) as caught:
        await served.openai.models.retrieve("org/gpt")
    assert caught.value.code == "model_not_found"


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/nothing", 404, "not_found"),
        ("GET", "/", 404, "not_found"),
        ("POST", "/v1/models/", 405, "method_not_allowed"),
        ("GET", "/v1/chat/completions", 405, "method_not_allowed"),
        ("DELETE", "/v1/models/chat", 405, "method_not_allowed"),
    ],
)
async def test_unknown_paths_and_methods(
    start: Any, method: str, path: str, status: int, code: str
) -> None:
    served = await start(FakeEngine())
    response = await served.http.request(method, path)
    assert response.status_code == status
    assert response.json()["error"]["code"] == code


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "invalid_json"),
        (b"{", "invalid_json"),
        (b'"text"', "invalid_value"),
        (b"[]", "invalid_value"),
        (b'{"messages": [{"role": "user", "content": "\xff"}]}', "invalid_json"),
        (b'{"messages": [{"role": "user", "content": "\\ud800"}]}', "invalid_json"),
        (b'{"messages": [{"role": "user", "content": "x"}], "top_p": NaN}', "invalid_value"),
    ],
)
async def test_bodies_that_are_no_request(start: Any, content: bytes, code: str) -> None:
    served = await start(FakeEngine())
    response = await served.http.post("/v1/chat/completions", content=content)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == code


async def test_a_body_that_is_too_large(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_module, "MAX_BODY_BYTES", 1000)
    served = await start(FakeEngine())
    response = await served.http.post("/v1/chat/completions", content=b" " * 1001)
    assert response.status_code == 413
    assert response.json()["error"]["code"] == "body_too_large"


def user(content: object) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": content}]}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "messages"),
        ({"messages": None}, "messages"),
        ({"messages": "text"}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": [5]}, "messages[0]"),
        ({"messages": [{}]}, "messages[0].role"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0]"),
        (user(5), "messages[0].content"),
        (user([5]), "messages[0].content"),
        (user([{"text": "x"}]), "messages[0].content"),
        (user([{"type": "text"}]), "messages[0].content"),
        (user([{"type": "image_url", "image_url": {"url": "x"}}]), "messages[0].content"),
        (user([{"type": "input_audio", "input_audio": {}}]), "messages[0].content"),
        (user("x") | {"model": 5}, "model"),
        (user("x") | {"temperature": -0.1}, "temperature"),
        (user("x") | {"temperature": 2.1}, "temperature"),
        (user("x") | {"temperature": "0.5"}, "temperature"),
        (user("x") | {"top_p": 1.1}, "top_p"),
        (user("x") | {"top_k": -2}, "top_k"),
        (user("x") | {"min_p": 1.1}, "min_p"),
        (user("x") | {"presence_penalty": 3}, "presence_penalty"),
        (user("x") | {"frequency_penalty": -3}, "frequency_penalty"),
        (user("x") | {"repeat_penalty": 0}, "repeat_penalty"),
        (user("x") | {"max_tokens": 0}, "max_tokens"),
        (user("x") | {"max_tokens": 2.5}, "max_tokens"),
        (user("x") | {"max_tokens": 5, "max_completion_tokens": 5}, None),
        (user("x") | {"n": 0}, "n"),
        (user("x") | {"n": 129}, "n"),
        (user("x") | {"seed": 2**63}, "seed"),
        (user("x") | {"stop": ""}, "stop[0]"),
        (user("x") | {"stop": ["a"] * 17}, "stop"),
        (user("x") | {"stop": [5]}, "stop[0]"),
        (user("x") | {"logit_bias": {"9999": 1}}, "logit_bias"),
        (user("x") | {"logit_bias": {"five": 1}}, "logit_bias"),
        (user("x") | {"logit_bias": {"5": 101}}, "logit_bias.5"),
        (user("x") | {"top_logprobs": 5}, None),
        (user("x") | {"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        (user("x") | {"stream_options": {}}, None),
        (user("x") | {"response_format": {"type": "sound"}}, "response_format.type"),
        (user("x") | {"response_format": {"type": "json_schema"}}, "response_format"),
        (user("x") | {"unheard_of": 1}, "unheard_of"),
    ],
)
async def test_bad_chat_requests(start: Any, body: object, param: str | None) -> None:
    engine = FakeEngine()
    served = await start(engine)
    response = await served.http.post("/v1/chat/completions", json=body)
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["param"] == param
    assert error["message"].endswith(".")
    assert not engine.generations


@pytest.mark.parametrize(
    "field",
    [
        {"audio": {"voice": "x", "format": "wav"}},
        {"modalities": ["text", "audio"]},
        {"functions": [{"name": "f"}]},
        {"function_call": "auto"},
        {"prediction": {"type": "content", "content": "x"}},
        {"web_search_options": {}},
        {"verbosity": "low"},
        {"reasoning_effort": "high"},
        {"moderation": {"model": "m"}},
    ],
)
async def test_what_would_change_the_answer_is_refused(
    start: Any, field: dict[str, object]
) -> None:
    served = await start(FakeEngine())
    response = await served.http.post("/v1/chat/completions", json=user("x") | field)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "unsupported_parameter"
    assert response.json()["error"]["param"] == next(iter(field))


async def test_what_changes_nothing_is_accepted(start: Any) -> None:
    served = await start(FakeEngine())
    answer = await served.openai.chat.completions.create(
        model="chat",
        messages=SAY,
        user="u",
        store=True,
        metadata={"a": "b"},
        service_tier="auto",
        safety_identifier="s",
        prompt_cache_key="k",
        modalities=["text"],
        response_format={"type": "text"},
        logprobs=False,
        stop=None,
        tools=[],
    )
    assert answer.choices[0].message.content == "Hello"


async def test_a_template_that_knows_reasoning_effort_gets_it(start: Any) -> None:
    engine = FakeEngine(template="{{ reasoning_effort }}{{ flag }}{{ messages[0].content }}")
    served = await start(engine)
    await served.openai.chat.completions.create(
        model="chat",
        messages=SAY,
        reasoning_effort="low",
        extra_body={"chat_template_kwargs": {"flag": "F"}},
    )
    assert bytes(engine.generations[0].prompt[1:]).decode() == "lowFSay it."


async def test_an_answer_can_go_back_as_a_message(start: Any) -> None:
    """What OpenAI's client dumps has fields that are null or not ours: they do no harm."""
    served = await start(FakeEngine())
    first = await served.openai.chat.completions.create(model="chat", messages=SAY)
    messages = [*SAY, first.choices[0].message.model_dump(), *SAY]
    again = await served.openai.chat.completions.create(model="chat", messages=messages)
    assert again.choices[0].message.content == "Hello"


async def test_while_there_is_no_model_every_endpoint_says_when_to_retry(start: Any) -> None:
    served = await start(FakeEngine())
    served.unavailable = NotServing("The model is loading, 40% done: wait.", 5)
    for method, path, body in [
        ("GET", "/v1/models", None),
        ("POST", "/v1/chat/completions", user("x")),
        ("POST", "/tokenize", {"content": "x"}),
    ]:
        response = await served.http.request(method, path, json=body)
        assert response.status_code == 503
        assert response.headers["retry-after"] == "5"
        assert "40% done" in response.json()["error"]["message"]


async def test_a_draining_server_closes_connections(start: Any) -> None:
    served = await start(FakeEngine())
    response = await served.http.get("/v1/models")
    assert response.headers.get("connection") != "close"
    served.draining.set()
    response = await served.http.get("/v1/models")
    assert response.headers["connection"] == "close"


async def test_requests_are_counted_by_path_and_status(start: Any) -> None:
    served = await start(FakeEngine())
    await served.http.get("/v1/models/chat")
    await served.http.get("/v1/nothing")
    await served.http.post("/v1/chat/completions", json=user("x"))

    def count(path: str, method: str, code: str) -> float | None:
        labels = {"path": path, "method": method, "code": code}
        name = "llama_runtime_http_requests_total"
        value: float | None = served.registry.get_sample_value(name, labels)
        return value

    assert count("/v1/models/{id:path}", "GET", "200") == 1
    assert count("other", "GET", "404") == 1
    assert count("/v1/chat/completions", "POST", "200") == 1
    first = "llama_runtime_time_to_first_token_seconds_sum"
    assert served.registry.get_sample_value(first) == 0.75
    assert served.metrics.in_flight == 0


@pytest.mark.parametrize("path", ["chat/completions", "completions"])
async def test_a_prompt_far_too_long_is_refused_unread(start: Any, path: str) -> None:
    engine = FakeEngine()
    engine.vocabulary.tokenize = unexpected  # type: ignore[method-assign]
    served = await start(engine)
    text = "x" * (engine.context_per_sequence + 1) * engine.vocabulary.longest_piece
    body = {"messages": [{"role": "user", "content": text}]} if "chat" in path else {"prompt": text}
    response = await served.http.post(f"/v1/{path}", json=body)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "context_length_exceeded"


def unexpected(*_: object, **__: object) -> list[int]:
    raise AssertionError


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("messages", [{"role": "user", "content": "x"}] * 10_001),
        ("tools", [{"type": "function", "function": {"name": "f"}}] * 513),
    ],
)
async def test_long_lists_are_refused(start: Any, field: str, value: list[Any]) -> None:
    served = await start(FakeEngine())
    body = {"messages": [{"role": "user", "content": "x"}]} | {field: value}
    response = await served.http.post("/v1/chat/completions", json=body)
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (400, field)


async def test_a_large_body_is_read_off_the_event_loop(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[int] = set()
    validate = body_module.BaseModel.model_validate_json.__func__  # type: ignore[attr-defined]

    def noting(cls: Any, body: bytes) -> Any:
        threads.add(threading.get_ident())
        return validate(cls, body)

    monkeypatch.setattr(schema.TokenizeRequest, "model_validate_json", classmethod(noting))
    served = await start(FakeEngine())
    content = {"content": "x" * body_module.QUICK_BYTES}
    assert (await served.http.post("/tokenize", json=content)).status_code == 200
    assert threads
    assert threading.get_ident() not in threads
