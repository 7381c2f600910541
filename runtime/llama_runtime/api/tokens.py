"""POST /tokenize and /detokenize, with the fields of llama.cpp's server."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from llama_runtime.api.body import read
from llama_runtime.api.schema import DetokenizeRequest, TokenizeRequest
from llama_runtime.api.serving import ServedModel, served_model
from llama_runtime.generation import Vocabulary


async def tokenize(request: Request) -> Response:
    body = await read(request, TokenizeRequest)
    vocabulary = served_model(request).engine.vocabulary
    tokens = await asyncio.to_thread(
        vocabulary.tokenize,
        body.content,
        add_special=body.add_special,
        parse_special=body.parse_special,
    )
    if body.with_pieces:
        return JSONResponse(
            {"tokens": [{"id": token, "piece": _piece(token, vocabulary)} for token in tokens]}
        )
    return JSONResponse({"tokens": tokens})


async def detokenize(request: Request) -> Response:
    body = await read(request, DetokenizeRequest)
    model = served_model(request)
    text = await asyncio.to_thread(_text, tuple(body.tokens), model)
    return JSONResponse({"content": text})


def _text(tokens: tuple[int, ...], model: ServedModel) -> str:
    if tokens:
        model.check_tokens(tokens, "tokens")
    pieces = (model.engine.vocabulary.piece(token, special=True) for token in tokens)
    return b"".join(pieces).decode("utf-8", "replace")


def _piece(token: int, vocabulary: Vocabulary) -> str | list[int]:
    """Text, or the bytes of a token that is not text by itself."""
    piece = vocabulary.piece(token, special=True)
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return list(piece)
