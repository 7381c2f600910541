"""How the process ends: the exit codes, and the reason in the termination log."""

from __future__ import annotations

import json
import logging
from enum import IntEnum
from pathlib import Path

log = logging.getLogger(__name__)


class ExitCode(IntEnum):
    """docs/architecture.md, the last paragraph."""

    DRAINED = 0
    BAD_FLAG = 2
    ENGINE_FAILED = 70
    NUMA_NOT_ALIGNED = 78


def write_termination_log(path: Path, reason: str, message: str, **details: object) -> None:
    """The kubelet shows this file in the container's last state; the log line says the same.

    It keeps 4096 bytes (core/v1, terminationMessagePath): ``details`` must be short.
    """
    log.info("Exiting", extra={"reason": reason, "detail": message})
    _write(path, {"reason": reason, "message": message, **details})


def note_memory(path: Path, **sizes: int | None) -> None:
    """What is about to be taken from the host's memory, in bytes: weightsBytes, kvBytes,
    computeBytes.

    The kernel kills a process that takes too much without a word; the kubelet passes this on
    then. Whatever ends the process otherwise replaces it.
    """
    _write(path, {"memory": {name: size for name, size in sizes.items() if size}})


def _write(path: Path, document: dict[str, object]) -> None:
    if path.parent == Path("/dev") and not path.exists():
        return  # run by hand, outside a pod
    try:
        path.write_text(json.dumps(document) + "\n")
    except OSError as error:
        log.debug("Can't write %s: %s", path, error.strerror)
