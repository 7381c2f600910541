"""ggml's backends and llama.cpp's log.

llama-cpp-python loads no backends itself; a libllama built with GGML_BACKEND_DL
refuses every model until somebody does (ggml/src/ggml-backend-reg.cpp).
"""

from __future__ import annotations

import ctypes
import functools
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import llama_cpp

logger = logging.getLogger("llama.cpp")

GPU_DEVICE_TYPES = frozenset({1, 2})  # GGML_BACKEND_DEVICE_TYPE_GPU, _IGPU (ggml-backend.h)
_LEVELS = {1: logging.DEBUG, 2: logging.INFO, 3: logging.WARNING, 4: logging.ERROR}  # ggml.h
_CONTINUES = 5


class BackendMissing(RuntimeError):
    """ggml found no backend that runs on this machine."""


@dataclass(frozen=True, slots=True)
class Backends:
    """What ggml can compute on: the CPU variant it chose, and its devices in ggml's order."""

    cpu_variant: str
    devices: tuple[str, ...]
    gpu_devices: tuple[str, ...]


def library_folder() -> Path:
    """The folder that libllama was loaded from."""
    named = os.environ.get("LLAMA_CPP_LIB_PATH")
    return Path(named) if named else Path(llama_cpp.__file__).parent / "lib"


@functools.cache
def load_backends() -> Backends:
    """Load ggml's backends, once in the life of the process.

    Raises BackendMissing when none of them runs here.
    """
    _route_log()
    folder = library_folder()
    # The same file that libllama links to: another copy would have a registry of its own.
    ggml = ctypes.CDLL(str(folder / "libggml.so"))
    ggml.ggml_backend_load_all_from_path.argtypes = [ctypes.c_char_p]
    ggml.ggml_backend_load_all_from_path.restype = None
    ggml.ggml_backend_load_all_from_path(os.fsencode(folder))
    llama_cpp.llama_backend_init()

    ggml.ggml_backend_dev_count.restype = ctypes.c_size_t
    ggml.ggml_backend_dev_get.argtypes = [ctypes.c_size_t]
    ggml.ggml_backend_dev_get.restype = ctypes.c_void_p
    ggml.ggml_backend_dev_name.argtypes = [ctypes.c_void_p]
    ggml.ggml_backend_dev_name.restype = ctypes.c_char_p
    ggml.ggml_backend_dev_type.argtypes = [ctypes.c_void_p]
    ggml.ggml_backend_dev_type.restype = ctypes.c_int
    names: list[str] = []
    gpus: list[str] = []
    for index in range(ggml.ggml_backend_dev_count()):
        device = ggml.ggml_backend_dev_get(index)
        name = ggml.ggml_backend_dev_name(device).decode()
        names.append(name)
        if ggml.ggml_backend_dev_type(device) in GPU_DEVICE_TYPES:
            gpus.append(name)
    if not names:
        raise BackendMissing(
            f"ggml found no backend in {folder} that runs on this machine: "
            "install a libllama whose ggml-cpu libraries lie beside it."
        )
    return Backends(_cpu_variant(Path("/proc/self/maps").read_text()), tuple(names), tuple(gpus))


def _cpu_variant(mapped_files: str) -> str:
    found = re.search(r"/libggml-cpu(?:-([\w-]+))?\.so", mapped_files)
    return (found.group(1) if found else None) or "default"


@dataclass(frozen=True, slots=True)
class LogLine:
    level: int
    text: str


class _LogRouter:
    """Hands llama.cpp's lines to Python's logging, and to whoever collects them."""

    def __init__(self) -> None:
        self.collectors: list[list[LogLine]] = []
        self._level = logging.INFO
        self._line = ""

    def __call__(self, level: int, text: bytes, _user_data: object) -> None:
        if level != _CONTINUES:
            self._level = _LEVELS.get(level, logging.INFO)
        if not self.collectors and not logger.isEnabledFor(self._level):
            return
        self._line += text.decode("utf-8", "replace")
        if not self._line.endswith("\n"):
            return
        line, self._line = self._line.rstrip(), ""
        for collector in self.collectors:
            collector.append(LogLine(self._level, line))
        if line.strip(". "):
            logger.log(self._level, "%s", line)


_router = _LogRouter()
_callback = llama_cpp.llama_log_callback(_router)


def _route_log() -> None:
    llama_cpp.llama_log_set(_callback, ctypes.c_void_p(0))


@contextmanager
def collected_log() -> Iterator[list[LogLine]]:
    """What llama.cpp logs meanwhile, oldest first, whatever the logger's level."""
    lines: list[LogLine] = []
    _router.collectors.append(lines)
    try:
        yield lines
    finally:
        _router.collectors.remove(lines)


def errors_of(lines: list[LogLine]) -> list[str]:
    """The errors among them, without the name of the C++ function."""
    return [line.text.split(": ", 1)[-1] for line in lines if line.level >= logging.ERROR]
