"""The threads that compute on the CPU, kept from one llama_decode to the next.

A context without a pool starts new threads for every graph and ends them behind it
(ggml_graph_compute, ggml/src/ggml-cpu/ggml-cpu.c), which a small model feels in every token.
llama-server keeps a pool as well (common_threadpools::init, common/common.cpp).
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable

from llama_runtime.engine.backend import library_folder

logger = logging.getLogger(__name__)

_MOST_THREADS = 512  # GGML_MAX_N_THREADS (ggml.h)
_CPU_DEVICE_TYPE = 0  # GGML_BACKEND_DEVICE_TYPE_CPU (ggml-backend.h)


class _Parameters(ctypes.Structure):
    """ggml_threadpool_params (ggml.h). A cpumask of zeros keeps the affinity of this process."""

    _fields_ = (
        ("cpumask", ctypes.c_bool * _MOST_THREADS),
        ("n_threads", ctypes.c_int),
        ("prio", ctypes.c_int),
        ("poll", ctypes.c_uint32),
        ("strict_cpu", ctypes.c_bool),
        ("paused", ctypes.c_bool),
    )


class ThreadPool:
    """``threads`` threads, the caller's included. Owned by the engine's thread.

    Their CPUs are those of the thread that makes the pool. ``polls``: they look for the next
    graph for some milliseconds before they sleep, as ggml's default has it; on a GPU, where
    the CPU has next to nothing to do, they sleep at once. When this libllama has no pools,
    that is logged, and contexts start their own threads.
    """

    def __init__(self, threads: int, *, polls: bool = True) -> None:
        self.threads = threads
        self._pool: int | None = None
        try:
            self._attach, self._free, new, init = _functions()
        except (AttributeError, OSError) as error:
            logger.warning(
                "This libllama keeps no threads (%s): each step starts its own and is slower; "
                "install the libllama of the runtime's image.",
                error,
            )
            return
        parameters = _Parameters()
        init(ctypes.byref(parameters), threads)
        if not polls:
            parameters.poll = 0
        self._pool = new(ctypes.byref(parameters))
        if not self._pool:
            logger.warning("ggml could not start %d threads: each step tries again.", threads)

    def attach(self, context: int) -> None:
        """Let a llama_context compute with these threads; it must be freed before them."""
        if self._pool:
            self._attach(context, self._pool, self._pool)

    def close(self) -> None:
        if self._pool:
            self._free(self._pool)
            self._pool = None


def _functions() -> tuple[
    Callable[..., None], Callable[..., None], Callable[..., int | None], Callable[..., None]
]:
    """attach, free, new and init; llama-cpp-python binds none of them.

    Two are the CPU backend's, which is loaded by itself and known to its registry alone.
    """
    ggml = ctypes.CDLL(str(library_folder() / "libggml.so"))
    llama = ctypes.CDLL(str(library_folder() / "libllama.so"))
    attach, init = llama.llama_attach_threadpool, ggml.ggml_threadpool_params_init
    attach.argtypes = [ctypes.c_void_p] * 3
    attach.restype = None
    init.argtypes = [ctypes.c_void_p, ctypes.c_int]
    init.restype = None
    for name, arguments in (
        ("ggml_backend_dev_by_type", [ctypes.c_int]),
        ("ggml_backend_dev_backend_reg", [ctypes.c_void_p]),
        ("ggml_backend_reg_get_proc_address", [ctypes.c_void_p, ctypes.c_char_p]),
    ):
        getattr(ggml, name).argtypes = arguments
        getattr(ggml, name).restype = ctypes.c_void_p
    device = ggml.ggml_backend_dev_by_type(_CPU_DEVICE_TYPE)
    registry = ggml.ggml_backend_dev_backend_reg(device) if device else None

    def of_backend(name: bytes) -> int:
        address = ggml.ggml_backend_reg_get_proc_address(registry, name) if registry else None
        if not address:
            raise AttributeError(f"no {name.decode()}")
        return int(address)

    new = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(of_backend(b"ggml_threadpool_new"))
    free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(of_backend(b"ggml_threadpool_free"))
    return attach, free, new, init
