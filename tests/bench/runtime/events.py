"""A streamed answer, from the bytes as they came to text, times and token counts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests.bench.runtime.load import BenchError

Received = list[tuple[float, bytes]]
"""Each piece read from a connection with the time it came."""


@dataclass(frozen=True, slots=True)
class Streamed:
    """What the events of one answer said."""

    times: tuple[float, ...]
    text: str
    generated: int
    prompt_tokens: int | None
    cached_tokens: int | None


def parse(received: Received, max_tokens: int) -> Streamed:
    """Read one whole HTTP response; raises BenchError unless it is a finished stream.

    Tokens are counted by ``usage`` where a server gives it; else an answer that ended
    for its length has max_tokens.
    """
    whole = b"".join(piece for _, piece in received)
    head, _, _ = whole.partition(b"\r\n\r\n")
    status = head.split(b"\r\n")[0].decode(errors="replace")
    if " 200 " not in f"{status} ":
        raise BenchError(f"The server answered {status!r}: {whole[len(head) :][:400]!r}.")
    times: list[float] = []
    text: list[str] = []
    usage: dict[str, Any] = {}
    finish = None
    for at, event in _events(received):
        if "error" in event:
            raise BenchError(f"The stream ended with an error: {event['error']}.")
        usage = event.get("usage") or usage
        for choice in event.get("choices", ()):
            finish = choice.get("finish_reason") or finish
            if content := choice.get("delta", {}).get("content"):
                times.append(at)
                text.append(content)
    generated = usage.get("completion_tokens", max_tokens if finish == "length" else None)
    if finish is None or not times or generated is None:
        raise BenchError(f"The answer has no {'end' if finish is None else 'tokens'}: {status}.")
    return Streamed(
        times=tuple(times),
        text="".join(text),
        generated=generated,
        prompt_tokens=usage.get("prompt_tokens"),
        cached_tokens=(usage.get("prompt_tokens_details") or {}).get("cached_tokens"),
    )


def _events(received: Received) -> list[tuple[float, dict[str, Any]]]:
    """Each event with the time of the piece that completed its line."""
    found = []
    pending = b""
    for at, piece in received:
        *lines, pending = (pending + piece).split(b"\n")
        for line in lines:
            _, mark, data = line.partition(b"data: ")
            if mark and data.strip() != b"[DONE]":
                found.append((at, json.loads(data)))
    return found
