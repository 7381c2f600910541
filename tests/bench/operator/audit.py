"""What was asked of the API server, by its own account."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

READS = ("get", "list", "watch")

Requests = Counter[str]
"""How many requests of each verb."""


def policy(user: str) -> str:
    """An audit policy that notes every request of one user, and nothing else."""
    return f"""apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    users: ["{user}"]
  - level: None
"""


class AuditLog:
    """The log as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0

    def news(self) -> Requests:
        """The requests since the last look."""
        with self._path.open("rb") as log:
            log.seek(self._read)
            text = log.read()
        end = text.rfind(b"\n") + 1
        self._read += end
        return count(text[:end].decode().splitlines())


def count(lines: Iterable[str]) -> Requests:
    """Requests by verb. A watch is told of twice, when it begins and when it ends."""
    seen: dict[str, str] = {}
    for line in lines:
        event = json.loads(line)
        seen[event["auditID"]] = event["verb"]
    return Counter(seen.values())


def writes(requests: Requests) -> int:
    """Those that changed something, or tried to."""
    return sum(number for verb, number in requests.items() if verb not in READS)
