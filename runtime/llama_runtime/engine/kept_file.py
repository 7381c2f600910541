"""A file with cached sequences, from the end of one process to the start of the next.

Magic, length of the header, header (JSON), padding; then for each sequence its tokens and
their cells (int32), then the context's state; last the SHA-256 of all that. The file is
mapped, not read: its bytes are the kernel's page cache, not this process's memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from llama_runtime.engine.batch import Int32Array

State = npt.NDArray[np.uint8]

FILE_NAME = "sequences"

_MAGIC = b"llamakv1"
_DIGEST_BYTES = 32
_ALIGNMENT = 64
_LONGEST_HEADER = 1 << 20


class Unusable(Exception):
    """The file is not what this process can use; the message says why, as half a sentence."""


@dataclass(frozen=True, slots=True)
class KeptSequence:
    """One cached sequence: its id, its tokens, and the cell of each in the packed cache."""

    id: int
    tokens: Int32Array
    cells: Int32Array


def write(
    directory: Path,
    identity: Mapping[str, object],
    sequences: Sequence[KeptSequence],
    state_size: int,
    save: Callable[[State], bool],
) -> int:
    """Bytes written under a temporary name, then renamed. Raises OSError."""
    header = json.dumps(
        {
            "identity": identity,
            "sequences": [{"id": one.id, "tokens": len(one.tokens)} for one in sequences],
            "stateBytes": state_size,
        }
    ).encode()
    prefix = _MAGIC + struct.pack("<Q", len(header)) + header
    prefix += bytes(-len(prefix) % _ALIGNMENT)
    arrays = b"".join(
        part.astype("<i4").tobytes() for one in sequences for part in (one.tokens, one.cells)
    )
    begin = len(prefix) + len(arrays)
    total = begin + state_size + _DIGEST_BYTES
    directory.mkdir(parents=True, exist_ok=True)
    temporary = directory / f".{FILE_NAME}.{os.getpid()}"
    try:
        with open(os.open(temporary, os.O_CREAT | os.O_TRUNC | os.O_RDWR, 0o600), "r+b") as file:
            # A full disk is an error here; behind a mapping it would be SIGBUS.
            os.posix_fallocate(file.fileno(), 0, total)
            content = np.memmap(file, np.uint8, "r+", shape=(total,))
            content[:begin] = np.frombuffer(prefix + arrays, np.uint8)
            if not save(content[begin : begin + state_size]):
                raise OSError("llama.cpp did not save its state")
            digest = hashlib.sha256(content[:-_DIGEST_BYTES].data).digest()
            content[-_DIGEST_BYTES:] = np.frombuffer(digest, np.uint8)
            content.flush()
        temporary.rename(directory / FILE_NAME)
    finally:
        temporary.unlink(missing_ok=True)
    return total


def read(
    directory: Path, identity: Mapping[str, object]
) -> tuple[list[KeptSequence], State] | None:
    """What was kept, and None when nothing was; the file is gone afterwards, whatever it is.

    So a file that a process dies of is not read by the next one. Raises Unusable, OSError.
    """
    path = directory / FILE_NAME
    for left_over in directory.glob(f".{FILE_NAME}.*"):
        with contextlib.suppress(OSError):
            left_over.unlink()
    if not path.exists():
        return None
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < len(_MAGIC) + 8 + _DIGEST_BYTES:
                raise Unusable("it is cut short")
            content = np.memmap(file, np.uint8, "r")
    finally:
        path.unlink()
    header, begin = _header(content)
    theirs = header["identity"]
    different = [key for key in {**identity, **theirs} if identity.get(key) != theirs.get(key)]
    if different:
        raise Unusable(f"other {', '.join(different)}")
    if hashlib.sha256(content[:-_DIGEST_BYTES].data).digest() != content[-_DIGEST_BYTES:].tobytes():
        raise Unusable("its checksum is wrong")
    sequences: list[KeptSequence] = []
    for one in header["sequences"]:
        middle, end = begin + 4 * one["tokens"], begin + 8 * one["tokens"]
        tokens, cells = (
            np.frombuffer(content[a:b].tobytes(), "<i4").astype(np.int32)
            for a, b in ((begin, middle), (middle, end))
        )
        sequences.append(KeptSequence(one["id"], tokens, cells))
        begin = end
    return sequences, content[begin:-_DIGEST_BYTES]


def _header(content: State) -> tuple[dict[str, Any], int]:
    """The header and where the arrays begin. It is read before the checksum: it may be anything."""
    start = len(_MAGIC) + 8
    if content[: len(_MAGIC)].tobytes() != _MAGIC:
        raise Unusable("it is of another version")
    (length,) = struct.unpack("<Q", content[len(_MAGIC) : start].tobytes())
    if length > min(_LONGEST_HEADER, len(content) - start - _DIGEST_BYTES):
        raise Unusable("it is cut short")
    try:
        header = json.loads(content[start : start + length].tobytes())
        counts = [one["tokens"] for one in header["sequences"]]
        identity, state_size = header["identity"], header["stateBytes"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Unusable("its header can't be read") from error
    begin = start + length
    begin += -begin % _ALIGNMENT
    numbers = [*counts, state_size]
    if not isinstance(identity, dict) or not all(
        isinstance(number, int) and number >= 0 for number in numbers
    ):
        raise Unusable("its header can't be read")
    if begin + 8 * sum(counts) + state_size + _DIGEST_BYTES != len(content):
        raise Unusable("it is cut short")
    return header, begin
