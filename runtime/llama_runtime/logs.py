"""Logs on standard error: one JSON object a line, never a request's text."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

# What every record has; anything else came in through ``extra``.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
# uvicorn colours a copy of its messages.
_NOISE = frozenset({"color_message"})


class JSONFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        event: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        extra = vars(record).keys() - _STANDARD - _NOISE
        event |= {name: vars(record)[name] for name in sorted(extra)}
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        return json.dumps(event, ensure_ascii=False, default=str)


def configure_logs(level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JSONFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # The API logs its own requests, and uvicorn's start and stop are ours to tell.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
