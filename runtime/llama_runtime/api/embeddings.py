"""POST /v1/embeddings."""

from __future__ import annotations

import asyncio
import base64
from array import array

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from llama_runtime.api.body import read
from llama_runtime.api.errors import unsupported
from llama_runtime.api.schema import EmbeddingRequest
from llama_runtime.api.serving import ServedModel, served_model
from llama_runtime.api.sse import answer


async def embeddings(request: Request) -> Response:
    body = await read(request, EmbeddingRequest)
    model = served_model(request)
    model.check_name(body.model)
    inputs = await asyncio.to_thread(
        lambda: [_tokens(each, model, index) for index, each in enumerate(body.input)]
    )
    vectors = await answer(request, _embed_all(model, inputs))
    if body.dimensions not in (None, len(vectors[0])):
        raise unsupported(
            f"dimensions: this model's vectors have {len(vectors[0])}, and are not cut: remove it",
            "dimensions",
        )
    encode = _base64 if body.encoding_format == "base64" else list[float]
    count = sum(map(len, inputs))
    return JSONResponse(
        {
            "object": "list",
            "data": [
                {"object": "embedding", "index": index, "embedding": encode(vector)}
                for index, vector in enumerate(vectors)
            ],
            "model": model.alias,
            "usage": {"prompt_tokens": count, "total_tokens": count},
        }
    )


async def _embed_all(model: ServedModel, inputs: list[tuple[int, ...]]) -> list[list[float]]:
    return [await model.engine.embed(tokens) for tokens in inputs]


def _tokens(text: str | list[int], model: ServedModel, index: int) -> tuple[int, ...]:
    param = f"input[{index}]"
    if isinstance(text, str):
        return model.tokenize(text, param, add_special=True, parse_special=False)
    return model.check_tokens(tuple(text), param)


def _base64(vector: list[float]) -> str:
    """Little-endian 32-bit floats, as OpenAI's client reads them."""
    return base64.b64encode(array("f", vector).tobytes()).decode()
