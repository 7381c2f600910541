"""Embeddings: a second, small context that pools, opened by the first request for one."""

from __future__ import annotations

from typing import cast

import llama_cpp
import numpy as np

from llama_runtime.engine.batch import Batch, Row
from llama_runtime.engine.model import LoadedModel
from llama_runtime.engine.thread_pool import ThreadPool
from llama_runtime.generation import EngineFailed, InvalidGeneration
from llama_runtime.settings import Settings

LARGEST_INPUT = 2048  # tokens; the whole input must be one micro batch to be pooled
_POOLED = (
    llama_cpp.LLAMA_POOLING_TYPE_MEAN,
    llama_cpp.LLAMA_POOLING_TYPE_CLS,
    llama_cpp.LLAMA_POOLING_TYPE_LAST,
)


class Embedder:
    """Owned by the engine's thread.

    The pooling is the model's own. A model that names none, as chat models do, gets the
    mean over its tokens.
    """

    def __init__(self, model: LoadedModel, settings: Settings, pool: ThreadPool) -> None:
        self._model = model
        self._pool = pool
        self._limit = min(settings.kv_context_per_sequence, LARGEST_INPUT)
        self._context: int | None = None
        self._batch = Batch(self._limit)

    def embed(self, tokens: tuple[int, ...]) -> list[float]:
        """L2-normalised; raises InvalidGeneration or EngineFailed."""
        if len(tokens) > self._limit:
            raise InvalidGeneration(
                f"The input has {len(tokens)} tokens, but an embedding takes at most "
                f"{self._limit}: shorten it."
            )
        context = self._context = self._context or self._open()
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(context), False)
        self._batch.fill([Row(0, 0, np.array(tokens, np.int32), 1)])
        self._batch.want_every_output()
        result = llama_cpp.llama_decode(context, self._batch.native)
        if result != 0:
            raise EngineFailed(f"llama.cpp could not compute the embedding (result {result}).")
        pointer = llama_cpp.llama_get_embeddings_seq(context, 0)
        if not pointer:
            raise InvalidGeneration("This model gives no embeddings: use an embedding model.")
        size = int(llama_cpp.llama_model_n_embd_out(self._model.pointer))
        vector = np.ctypeslib.as_array(pointer, (size,)).astype(np.float64)
        length = float(np.linalg.norm(vector))
        if not np.isfinite(length) or length == 0:
            raise EngineFailed("The model computed an embedding of no length.")
        return cast(list[float], (vector / length).tolist())

    def close(self) -> None:
        if self._context is not None:
            llama_cpp.llama_free(self._context)

    def _open(self) -> int:
        context = self._new_context(llama_cpp.LLAMA_POOLING_TYPE_UNSPECIFIED)
        if int(llama_cpp.llama_pooling_type(context)) == llama_cpp.LLAMA_POOLING_TYPE_NONE:
            llama_cpp.llama_free(context)
            context = self._new_context(llama_cpp.LLAMA_POOLING_TYPE_MEAN)
        if int(llama_cpp.llama_pooling_type(context)) not in _POOLED:
            llama_cpp.llama_free(context)
            raise InvalidGeneration("This model ranks and gives no embeddings: use another one.")
        return context

    def _new_context(self, pooling: int) -> int:
        parameters = llama_cpp.llama_context_default_params()
        parameters.n_ctx = parameters.n_batch = parameters.n_ubatch = self._limit
        parameters.n_seq_max = 1
        parameters.n_threads = parameters.n_threads_batch = self._pool.threads
        parameters.embeddings = True
        parameters.pooling_type = pooling
        pointer = llama_cpp.llama_init_from_model(self._model.pointer, parameters)
        if not pointer:
            raise InvalidGeneration(
                "There is no memory left for embeddings: lower kv.maxSequences or "
                "kv.contextPerSequence."
            )
        self._pool.attach(pointer)
        return cast(int, pointer)
