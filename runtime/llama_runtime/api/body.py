"""Reading a request's JSON into one of the models of schema.py."""

from __future__ import annotations

import asyncio
import re
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from starlette.requests import Request

from llama_runtime.api.errors import APIError, invalid

MAX_BODY_BYTES = 8 * 1024 * 1024
QUICK_BYTES = 64 * 1024  # what is read in less than a millisecond
FIELD_NAME = re.compile(r"[a-z0-9_-]+")

Model = TypeVar("Model", bound=BaseModel)


async def read(request: Request, model: type[Model]) -> Model:
    """The validated body; raises APIError 400 or 413."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise APIError(
                413,
                f"The body exceeds {MAX_BODY_BYTES} bytes: send a shorter request.",
                code="body_too_large",
            )
    try:
        if len(body) > QUICK_BYTES:
            return await asyncio.to_thread(model.model_validate_json, bytes(body))
        return model.model_validate_json(bytes(body))
    except ValidationError as error:
        raise _first_error(error.errors(include_url=False)[0]) from None


def _first_error(error: ErrorDetails) -> APIError:
    param = _param(error["loc"])
    match error["type"]:
        case "json_invalid":
            return invalid(f"The body is not valid JSON ({error['msg']}).", code="invalid_json")
        case "extra_forbidden":
            return invalid(
                f"The parameter '{param}' is not known here: remove it.",
                param,
                "unknown_parameter",
            )
        case "missing":
            return invalid(
                f"The parameter '{param}' is missing: add it.", param, "missing_required_parameter"
            )
        case "unsupported":
            return invalid(f"{param}: {error['msg']}", param, "unsupported_parameter")
        case _:
            where = f"{param}: " if param else ""
            return invalid(f"{where}{error['msg'].removeprefix('Value error, ')}", param)


def _param(location: tuple[int | str, ...]) -> str | None:
    """OpenAI's spelling, as in ``messages[0].content``; without pydantic's names of unions."""
    param = ""
    for part in location:
        if isinstance(part, int):
            param += f"[{part}]"
        elif FIELD_NAME.fullmatch(part):
            param += f".{part}" if param else part
    return param or None
