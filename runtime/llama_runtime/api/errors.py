"""Errors in OpenAI's shape: ``{"error": {"message", "type", "param", "code"}}``."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from llama_runtime.generation import (
    DoesNotFit,
    EngineFailed,
    GrammarFailed,
    InvalidGeneration,
    NotServing,
    QueueFull,
    Rejected,
)


class APIError(Exception):
    """A request that gets an error; the message says what happened and what to do next."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.retry_after = retry_after

    @property
    def type(self) -> str:
        if self.status == 429:
            return "rate_limit_error"
        return "invalid_request_error" if self.status < 500 else "server_error"


def invalid(message: str, param: str | None = None, code: str = "invalid_value") -> APIError:
    """A 400: the client can mend the request."""
    return APIError(400, f"{message.rstrip('.')}.", code=code, param=param)


def unsupported(message: str, param: str) -> APIError:
    """A 400: the request asks for what would change the answer and is not done here."""
    return invalid(message, param, "unsupported_parameter")


def as_api_error(error: Exception) -> APIError:
    """The error that a client sees for anything raised while its request was handled."""
    match error:
        case APIError():
            return error
        case DoesNotFit():
            return APIError(400, str(error), code="context_length_exceeded")
        case InvalidGeneration():
            return invalid(str(error))
        case QueueFull():
            return APIError(429, str(error), code="queue_full", retry_after=error.retry_after)
        case NotServing():
            return APIError(503, str(error), code="not_serving", retry_after=error.retry_after)
        case Rejected():
            return invalid(str(error))
        case GrammarFailed():
            return invalid(str(error), code="grammar_too_complex")
        case EngineFailed():
            return APIError(500, str(error), code="engine_failed")
        case HTTPException():
            return _http_error(error)
        case _:
            return APIError(
                500,
                "The server failed on this request: its log has the reason.",
                code="internal_error",
            )


def _http_error(error: HTTPException) -> APIError:
    match error.status_code:
        case 404:
            return APIError(
                404, "There is no such path: docs/api.md lists what there is.", code="not_found"
            )
        case 405:
            return APIError(
                405,
                "This path does not take this method: docs/api.md lists what it takes.",
                code="method_not_allowed",
            )
        case status:
            return APIError(status, str(error.detail))


def error_body(error: APIError) -> dict[str, object]:
    return {
        "error": {
            "message": error.message,
            "type": error.type,
            "param": error.param,
            "code": error.code,
        }
    }


def error_response(error: APIError) -> JSONResponse:
    headers = {}
    if error.retry_after is not None:
        headers["retry-after"] = str(error.retry_after)
    if error.status == 401:
        headers["www-authenticate"] = "Bearer"
    return JSONResponse(error_body(error), status_code=error.status, headers=headers)
