"""The ASGI application on port 8080."""

from __future__ import annotations

from collections.abc import Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llama_runtime.api import chat, completions, embeddings, models, tokens
from llama_runtime.api.errors import as_api_error, error_response
from llama_runtime.api.keys import ApiKeys
from llama_runtime.api.middleware import Answered, Authenticated, Observed, Observer
from llama_runtime.api.serving import ModelSource

ROUTES = (
    Route("/v1/chat/completions", chat.chat_completions, methods=["POST"]),
    Route("/v1/completions", completions.completions, methods=["POST"]),
    Route("/v1/embeddings", embeddings.embeddings, methods=["POST"]),
    Route("/v1/models", models.list_models, methods=["GET"]),
    Route("/v1/models/{id:path}", models.get_model, methods=["GET"]),
    Route("/tokenize", tokens.tokenize, methods=["POST"]),
    Route("/detokenize", tokens.detokenize, methods=["POST"]),
)


def create_app(
    model_source: ModelSource,
    *,
    keys: ApiKeys,
    observer: Observer,
    is_draining: Callable[[], bool],
) -> Starlette:
    """``model_source`` raises NotServing while there is no model."""
    app = Starlette(
        routes=ROUTES,
        middleware=[
            Middleware(Observed, observer=observer, is_draining=is_draining),
            Middleware(Answered),
            Middleware(Authenticated, keys=keys),
        ],
        exception_handlers={HTTPException: _http_exception},
    )
    app.router.redirect_slashes = False
    app.state.model_source = model_source
    app.state.observer = observer
    return app


async def _http_exception(request: Request, error: Exception) -> Response:
    return error_response(as_api_error(error))
