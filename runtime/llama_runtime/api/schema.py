"""The requests that the API takes: OpenAI's fields, then llama.cpp's.

Unknown fields are refused, so that nothing a client asks for is ignored in
silence. What is accepted without effect is listed in ``Harmless``; what would
change the answer and isn't done is a field that only takes its default.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

MAX_STOPS = 16
MAX_CHOICES = 128
MAX_MESSAGES = 10_000
MAX_TOOLS = 512
MAX_TOP_LOGPROBS = 20
INT64 = 2**63

Roles = Literal["system", "developer", "user", "assistant", "tool"]


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _only(default: object, hint: str) -> Callable[[object], object]:
    """A field whose other values would change the answer, and are not supported."""

    def check(value: object) -> object:
        if value is not None and value != default:
            raise PydanticCustomError("unsupported", "{hint}", {"hint": hint})
        return value

    return check


def _joined_text(value: object) -> object:
    """Text parts become one string, a line each; a template takes strings."""
    if not isinstance(value, list):
        return value
    texts = []
    for part in value:
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(kind, str):
            raise PydanticCustomError("invalid_part", "a part needs a type")
        if kind not in ("text", "refusal"):
            raise PydanticCustomError(
                "unsupported",
                "this server takes text only, not '{kind}': send text parts",
                {"kind": kind},
            )
        text = part.get(kind)
        if not isinstance(text, str):
            raise PydanticCustomError("invalid_part", "a text part needs its text")
        texts.append(text)
    return "\n".join(texts)


Stops = Annotated[list[Annotated[str, Field(min_length=1)]], Field(max_length=MAX_STOPS)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class _Open(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)


class StreamOptions(_Strict):
    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class Harmless(_Strict):
    """Accepted and without effect: none of these changes the answer."""

    user: str | None = None
    store: bool | None = None
    metadata: dict[str, Any] | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    prompt_cache_options: dict[str, Any] | None = None


class GenerationRequest(Harmless):
    """What chat and text completions have in common."""

    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = Field(default=None, ge=1, le=MAX_CHOICES)
    max_tokens: int | None = Field(default=None, ge=1)
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)
    seed: int | None = Field(default=None, ge=-INT64, lt=INT64)
    logit_bias: dict[str, Annotated[float, Field(ge=-100, le=100)]] | None = None
    stop: Annotated[Stops | None, BeforeValidator(_listed)] = None

    top_k: int | None = Field(default=None, ge=-1)
    min_p: float | None = Field(default=None, ge=0, le=1)
    repeat_penalty: float | None = Field(default=None, gt=0, le=10)
    repeat_last_n: int | None = Field(default=None, ge=0)
    grammar: Annotated[str, Field(min_length=1)] | None = None
    ignore_eos: bool | None = None
    cache_prompt: bool | None = None

    @model_validator(mode="after")
    def _consistent(self) -> GenerationRequest:
        if self.stream_options is not None and not self.stream:
            raise ValueError("stream_options is only for streams: set stream to true")
        return self


class ToolCallFunction(_Open):
    name: str
    arguments: str


class MessageToolCall(_Open):
    id: str
    type: Literal["function"]
    function: ToolCallFunction


class Message(_Open):
    """One turn; fields that are not named here go to the template as they are."""

    role: Roles
    content: Annotated[str | None, BeforeValidator(_joined_text)] = None
    name: str | None = None
    tool_calls: list[MessageToolCall] | None = None
    tool_call_id: str | None = None
    audio: Annotated[None, BeforeValidator(_only(None, "audio is not supported"))] = None

    @model_validator(mode="after")
    def _has_content(self) -> Message:
        if self.content is None and not (self.role == "assistant" and self.tool_calls):
            raise ValueError("a message needs content, unless it has tool_calls")
        return self


class ToolFunction(_Open):
    name: str = Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(_Open):
    type: Literal["function"]
    function: ToolFunction


class NamedFunction(_Strict):
    name: str


class NamedToolChoice(_Strict):
    type: Literal["function"]
    function: NamedFunction


class JSONSchemaFormat(_Strict):
    # `schema` is a method of every pydantic model
    json_schema: dict[str, Any] | None = Field(default=None, alias="schema")
    name: str | None = None
    description: str | None = None
    strict: bool | None = None


class ResponseFormat(_Strict):
    """OpenAI's three types; json_object may carry a schema, as llama.cpp's server takes it."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JSONSchemaFormat | None = None
    object_schema: dict[str, Any] | None = Field(default=None, alias="schema")


class ChatRequest(GenerationRequest):
    messages: Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES)]
    max_completion_tokens: int | None = Field(default=None, ge=1)
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=MAX_TOP_LOGPROBS)
    response_format: ResponseFormat | None = None
    tools: list[Tool] | None = Field(default=None, max_length=MAX_TOOLS)
    tool_choice: Literal["none", "auto", "required"] | NamedToolChoice | None = None
    parallel_tool_calls: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    reasoning_effort: str | None = None

    modalities: Annotated[
        list[str] | None, BeforeValidator(_only(["text"], "only text is generated"))
    ] = None
    verbosity: Annotated[
        str | None, BeforeValidator(_only("medium", "verbosity is not supported: remove it"))
    ] = None
    functions: Annotated[
        None, BeforeValidator(_only(None, "functions are deprecated: use tools"))
    ] = None
    function_call: Annotated[
        None, BeforeValidator(_only(None, "function_call is deprecated: use tool_choice"))
    ] = None
    audio: Annotated[None, BeforeValidator(_only(None, "only text is generated: remove audio"))] = (
        None
    )
    prediction: Annotated[
        None, BeforeValidator(_only(None, "predicted outputs are not supported: remove it"))
    ] = None
    web_search_options: Annotated[
        None, BeforeValidator(_only(None, "there is no web search here: remove it"))
    ] = None
    moderation: Annotated[
        None, BeforeValidator(_only(None, "there is no moderation here: remove it"))
    ] = None

    @model_validator(mode="after")
    def _consistent_chat(self) -> ChatRequest:
        if self.max_tokens is not None and self.max_completion_tokens is not None:
            raise ValueError("max_tokens and max_completion_tokens are the same: give one of them")
        if self.top_logprobs is not None and not self.logprobs:
            raise ValueError("top_logprobs needs logprobs: set it to true")
        if self.tool_choice not in (None, "none") and not self.tools:
            raise ValueError("tool_choice needs tools: give some, or remove it")
        return self


Tokens = list[int]


def _prompts(value: object) -> object:
    """A prompt is text or tokens; several are a list of them."""
    if isinstance(value, str) or (isinstance(value, list) and value and _is_int(value[0])):
        return [value]
    return value


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _prompt(value: object) -> object:
    if isinstance(value, str) or (isinstance(value, list) and all(map(_is_int, value))):
        return value
    raise PydanticCustomError("invalid_prompt", "a prompt must be text or a list of tokens")


Prompt = Annotated[str | Tokens, BeforeValidator(_prompt)]
Prompts = Annotated[
    list[Prompt], BeforeValidator(_prompts), Field(min_length=1, max_length=MAX_CHOICES)
]


class CompletionRequest(GenerationRequest):
    prompt: Prompts
    max_tokens: int | None = Field(default=None, ge=0)
    suffix: str | None = None
    echo: bool | None = None
    logprobs: int | None = Field(default=None, ge=0, le=MAX_TOP_LOGPROBS)
    response_format: ResponseFormat | None = None
    best_of: Annotated[
        int | None, BeforeValidator(_only(1, "best_of is not supported: use n, and choose"))
    ] = None

    @model_validator(mode="after")
    def _consistent_completion(self) -> CompletionRequest:
        if self.echo and self.suffix:
            raise ValueError("echo and suffix exclude each other: remove one")
        return self


class EmbeddingRequest(Harmless):
    model: str | None = None
    input: Prompts
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = Field(default=None, ge=1)


class TokenizeRequest(_Strict):
    content: str
    add_special: bool = False
    parse_special: bool = True
    with_pieces: bool = False


class DetokenizeRequest(_Strict):
    tokens: Tokens
