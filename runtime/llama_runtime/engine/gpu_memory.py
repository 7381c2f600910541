"""Memory in use on the GPUs, as ggml sees it."""

from __future__ import annotations

import ctypes

from llama_runtime.engine.backend import GPU_DEVICE_TYPES, library_folder


def gpu_memory_used() -> int | None:
    """Bytes in use on all GPUs, by anybody; None without a GPU.

    A pod has its GPUs to itself. To be called once ggml's backends are loaded.
    """
    ggml = ctypes.CDLL(str(library_folder() / "libggml.so"))
    ggml.ggml_backend_dev_count.restype = ctypes.c_size_t
    ggml.ggml_backend_dev_get.argtypes = [ctypes.c_size_t]
    ggml.ggml_backend_dev_get.restype = ctypes.c_void_p
    ggml.ggml_backend_dev_type.argtypes = [ctypes.c_void_p]
    ggml.ggml_backend_dev_memory.argtypes = [
        ctypes.c_void_p,
        ctypes.POINTER(ctypes.c_size_t),
        ctypes.POINTER(ctypes.c_size_t),
    ]
    ggml.ggml_backend_dev_memory.restype = None
    used: int | None = None
    for index in range(ggml.ggml_backend_dev_count()):
        device = ggml.ggml_backend_dev_get(index)
        if ggml.ggml_backend_dev_type(device) not in GPU_DEVICE_TYPES:
            continue
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        ggml.ggml_backend_dev_memory(device, ctypes.byref(free), ctypes.byref(total))
        used = (used or 0) + total.value - free.value
    return used
