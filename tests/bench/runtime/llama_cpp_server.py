"""llama-cpp-python's own server, with its extra packages beside the project's."""

from __future__ import annotations

import ctypes
import os
import runpy
import subprocess
import sys
from pathlib import Path

import cache

REQUIREMENTS = Path(__file__).with_name("llama_cpp_server.txt")
"""Made by ``uv pip compile`` of fastapi, sse-starlette, starlette-context, held to dev.txt."""


def install() -> Path:
    """A folder with what llama_cpp.server needs and the project doesn't."""
    return cache.entry("llama-cpp-server", cache.digest(packages=REQUIREMENTS), _install)


def environment() -> dict[str, str]:
    """The variables for a process that runs this module."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(install()), *sys.path])}


def _install(folder: Path) -> None:
    command = ["uv", "pip", "install", "--quiet", "--require-hashes", "--target", str(folder)]
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([str(uv), *command[1:], "--requirement", str(REQUIREMENTS)], check=True)


def main() -> None:
    """Load ggml's CPU backend, which llama-cpp-python doesn't do by itself, and serve."""
    library = Path(os.environ["LLAMA_CPP_LIB_PATH"])
    ggml = ctypes.CDLL(str(library / "libggml.so"))
    ggml.ggml_backend_load_all_from_path(str(library).encode())
    runpy.run_module("llama_cpp.server", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
