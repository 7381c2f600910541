"""What a restart or a cure tells the one who asked for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from llama_runtime.pod_request import Answer
from llama_runtime.status import Status


@dataclass(frozen=True, slots=True)
class RequestedRestart:
    """A drain that a request began, and what was measured before it."""

    id: str | None
    unready_at: datetime
    before: Mapping[str, object]
    started_at: str

    @classmethod
    def of(cls, answer: Answer, status: Status, now: datetime) -> RequestedRestart:
        return cls(answer.id, now, measurement(status), str(status["startedAt"]))

    def details(self, now: datetime, status: Status) -> dict[str, object]:
        """More fields of the termination log: the operator reads them from lastState."""
        return {
            "requestId": self.id,
            "startedAt": self.started_at,
            "unreadyAt": _milliseconds(self.unready_at),
            "exitedAt": _milliseconds(now),
            "before": self.before,
            "kept": (status.get("kv") or {}).get("kept"),
        }


def measurement(status: Status) -> dict[str, object]:
    """What a restart may change, from the status document; None where unknown."""
    kv: Mapping[str, Any] = status.get("kv") or {}
    memory: Mapping[str, Any] = status.get("memory") or {}
    decode: Mapping[str, Any] = kv.get("decode") or {}
    return {
        **{key: kv.get(key) for key in ("cellsUsed", "span", "spanRatio")},
        **{key: decode.get(key) for key in ("tokensPerSecond", "depth", "slowdown")},
        **{key: memory.get(key) for key in ("rssBytes", "growth", "vramBytes")},
    }


def describe_cure(cure: Mapping[str, Any]) -> str:
    """One sentence for ``request.message``."""
    before, after = cure["before"], cure["after"]
    return (
        f"{cure['method']}: {before['cellsUsed']} cells spanned {before['span']} and now span "
        f"{after['span']}; it took {cure['seconds'] * 1000:.0f} ms."
    )


def _milliseconds(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
