"""Checks of the GGUF file before llama.cpp opens it, so that each fault has its name."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from pathlib import Path

from llama_runtime.generation import ModelUnusable

GGUF_MAGIC = b"GGUF"
GGUF_VERSIONS = frozenset({2, 3})
_HEADER = struct.Struct("<4sIQQ")  # magic, version, tensors, key-value pairs (ggml/docs/gguf.md)
_SMALLEST_TENSOR_ENTRY = 8 + 4 + 4 + 8  # name length, dimensions, type, offset
_SMALLEST_KEY_VALUE = 8 + 4 + 1  # key length, type, value
_CHUNK = 4 << 20


def check_model_file(path: Path, sha256: str | None, on_progress: Callable[[float], None]) -> int:
    """The size of the file in bytes, after its header and checksum were found good.

    Raises ModelUnusable with reason ModelFileMissing, ModelFileUnreadable,
    ModelCorrupt or ModelChecksumMismatch. Progress goes from 0 to 1.
    """
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            _check_header(path, file.read(_HEADER.size), size)
            if sha256 is not None:
                file.seek(0)
                digest = hashlib.sha256()
                done = 0
                while chunk := file.read(_CHUNK):
                    digest.update(chunk)
                    done += len(chunk)
                    on_progress(min(done / size, 1.0))
                if digest.hexdigest() != sha256:
                    raise ModelUnusable(
                        "ModelChecksumMismatch",
                        f"{path} has sha256 {digest.hexdigest()}, but {sha256} is wanted: "
                        "replace the file or correct model.sha256.",
                    )
    except FileNotFoundError as error:
        raise ModelUnusable(
            "ModelFileMissing",
            f"{path} does not exist: put the GGUF file there or correct model.source.",
        ) from error
    except OSError as error:
        raise ModelUnusable(
            "ModelFileUnreadable",
            f"{path} can't be read ({error.strerror or error}): "
            "make it a file that this user may read.",
        ) from error
    on_progress(1.0)
    return size


def _check_header(path: Path, header: bytes, size: int) -> None:
    def corrupt(finding: str) -> ModelUnusable:
        return ModelUnusable(
            "ModelCorrupt", f"{path} {finding}: replace it with a complete GGUF file."
        )

    if len(header) < _HEADER.size or not header.startswith(GGUF_MAGIC):
        raise corrupt("is not a GGUF file")
    _, version, tensors, key_values = _HEADER.unpack(header)
    if version not in GGUF_VERSIONS:
        raise corrupt(f"has GGUF version {version}, but only 2 and 3 are known")
    least = _HEADER.size + tensors * _SMALLEST_TENSOR_ENTRY + key_values * _SMALLEST_KEY_VALUE
    if size < least:
        raise corrupt(f"has {size} bytes, but its header speaks of at least {least}")
