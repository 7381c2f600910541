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
    if path.parent == Path("/dev") and not path.exists():
        return  # run by hand, outside a pod
    try:
        path.write_text(json.dumps({"reason": reason, "message": message, **details}) + "\n")
    except OSError as error:
        log.debug("Can't write %s: %s", path, error.strerror)
