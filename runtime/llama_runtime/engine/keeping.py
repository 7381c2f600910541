"""Keeping the hottest cached sequences over a restart of the container."""

from __future__ import annotations

import hashlib
import logging
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import llama_cpp

from llama_runtime.engine import kept_file
from llama_runtime.engine.backend import library_folder
from llama_runtime.engine.kept_file import KeptSequence, Unusable
from llama_runtime.engine.kv_cache import KVCache
from llama_runtime.settings import Settings
from llama_runtime.version import VERSION

logger = logging.getLogger(__name__)

MOST_BYTES = 1 << 30
_BEGINNING = 1 << 20


@dataclass(frozen=True, slots=True)
class Kept:
    """What was written at the end, or restored at the start; why, when it is nothing."""

    sequences: int
    tokens: int
    bytes: int
    seconds: float
    message: str

    def as_dict(self) -> dict[str, object]:
        return {
            "sequences": self.sequences,
            "tokens": self.tokens,
            "bytes": self.bytes,
            "seconds": round(self.seconds, 3),
            "message": self.message,
        }


def keep(kv: KVCache, settings: Settings) -> Kept | None:
    """Write what is cached, least recently used left out first; nothing may be running.

    Never raises: a cache that is not kept costs time, not an answer. None: not wanted.
    """
    directory = settings.kept_directory
    if directory is None:
        return None
    started = time.monotonic()
    try:
        most = min(MOST_BYTES, _free_bytes(directory) // 2)
        while len(kv.cached) and kv.context.size_of_all() > most:
            kv.drop_oldest()
        kept = list(kv.cached)
        tokens = sum(len(cached.tokens) for cached in kept)
        size = kv.context.size_of_all()
        if not kept or not size:
            return _told(Kept(0, 0, 0, 0.0, "Nothing was cached that fits: nothing is kept."))
        kv.account.pack()
        sequences = [
            KeptSequence(cached.id, cached.tokens, kv.account.cells_of(cached.id))
            for cached in kept
        ]
        written = kept_file.write(
            directory, identity(kv, settings), sequences, size, kv.context.save_all
        )
    except OSError as error:
        return _told(Kept(0, 0, 0, 0.0, f"Nothing is kept in {directory} ({error})."))
    seconds = time.monotonic() - started
    return _told(Kept(len(kept), tokens, written, seconds, "Kept for the next start."))


def restore(kv: KVCache, settings: Settings) -> Kept | None:
    """Take back what the last process kept, if model, context and versions are the same.

    Never raises: without it the cache is empty, as it always was. None: not wanted.
    """
    directory = settings.kept_directory
    if directory is None:
        return None
    started = time.monotonic()
    try:
        found = kept_file.read(directory, identity(kv, settings))
        if found is None:
            return _told(Kept(0, 0, 0, 0.0, "Nothing was kept by a process before this one."))
        sequences, state = found
        if not kv.adopt([(one.id, one.tokens, one.cells) for one in sequences], state):
            raise Unusable("llama.cpp does not take its state")
    except Unusable as error:
        return _told(Kept(0, 0, 0, 0.0, f"What was kept is discarded: {error}."))
    except OSError as error:
        return _told(Kept(0, 0, 0, 0.0, f"What was kept can't be read ({error})."))
    tokens = sum(len(one.tokens) for one in sequences)
    seconds = time.monotonic() - started
    return _told(Kept(len(sequences), tokens, len(state), seconds, "Restored."))


def identity(kv: KVCache, settings: Settings) -> dict[str, object]:
    """All that must be the same for the state to mean the same."""
    model = settings.model_path.stat()
    with settings.model_path.open("rb") as file:
        beginning = hashlib.sha256(file.read(_BEGINNING)).hexdigest()
    return {
        "model": [model.st_size, model.st_mtime_ns, beginning],
        "layout": settings.kv_layout,
        "typeK": settings.kv_type_k,
        "typeV": settings.kv_type_v,
        "flashAttention": settings.engine_flash_attention,
        "maxSequences": settings.kv_max_sequences,
        "contextPerSequence": settings.kv_context_per_sequence,
        "cells": kv.context.cells,
        "runtime": VERSION,
        "llama.cpp": [llama_cpp.__version__, (library_folder() / "libllama.so").stat().st_size],
    }


def _free_bytes(directory: Path) -> int:
    directory.mkdir(parents=True, exist_ok=True)
    return shutil.disk_usage(directory).free


def _told(kept: Kept) -> Kept:
    logger.info("Sequences over a restart", extra={"kept": kept.as_dict()})
    return kept
