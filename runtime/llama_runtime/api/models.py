"""GET /v1/models and /v1/models/{id}."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from llama_runtime.api.serving import ServedModel, served_model


async def list_models(request: Request) -> Response:
    return JSONResponse({"object": "list", "data": [_model(served_model(request))]})


async def get_model(request: Request) -> Response:
    model = served_model(request)
    model.check_name(request.path_params["id"])
    return JSONResponse(_model(model))


def _model(model: ServedModel) -> dict[str, object]:
    return {
        "id": model.alias,
        "object": "model",
        "created": model.created,
        "owned_by": "llama-runtime",
        "context_length": model.engine.context_per_sequence,
    }
