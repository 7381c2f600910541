"""An engine without a model: its answers are scripts, its tokens are bytes.

For what a real model can't be made to do on demand: half characters, failures in
the middle, a full queue, a stream that hangs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field

from llama_runtime.generation import (
    DoesNotFit,
    EngineFailed,
    Finished,
    Generation,
    InvalidGeneration,
    NotServing,
    QueueFull,
    Rejected,
    Timings,
    Token,
)

SPECIAL = {
    256: b"<s>",
    257: b"</s>",
    258: b"<tool_call>",
    259: b"</tool_call>",
    260: b"<|fim_prefix|>",
    261: b"<|fim_suffix|>",
    262: b"<|fim_middle|>",
}
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]"
)
CONTEXT = 64_000


class FakeVocabulary:
    """A token for each byte; BOS in front where special tokens are added."""

    def __init__(self, special: Iterable[int] = (256, 257)) -> None:
        self.size = 263
        self.longest_piece = 14
        self._special = {token: SPECIAL[token] for token in special}

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        tokens = [256] if add_special else []
        rest = text.encode()
        while rest:
            for token, piece in self._special.items():
                if parse_special and rest.startswith(piece):
                    tokens.append(token)
                    rest = rest[len(piece) :]
                    break
            else:
                tokens.append(rest[0])
                rest = rest[1:]
        return tokens

    def piece(self, token: int, *, special: bool = False) -> bytes:
        if token < 256:
            return bytes([token])
        return SPECIAL[token] if special else b""

    def is_end_of_generation(self, token: int) -> bool:
        return token == 257


@dataclass
class Script:
    """What one generation does: tokens, then how it ends.

    ``gate`` is waited for after ``gate_after`` tokens; ``error`` is raised in place of an end.
    """

    tokens: list[int]
    reason: str = "stop"
    error: Exception | None = None
    gate: asyncio.Event | None = None
    gate_after: int = 0


def text_script(text: str, **options: object) -> Script:
    return Script(list(text.encode()), **options)  # type: ignore[arg-type]


@dataclass
class FakeStream:
    engine: FakeEngine
    generation: Generation
    script: Script
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    ended: bool = False
    sent: int = 0

    @property
    def timings(self) -> Timings:
        cached = min(3, len(self.generation.prompt) - 1)
        return Timings(cached, len(self.generation.prompt), self.sent, 0.5, 0.25, 0.125)

    @property
    def prompt_scores(self) -> tuple[Token, ...]:
        if not self.generation.score_prompt:
            return ()
        first, *rest = self.generation.prompt
        top = ((65, -0.125),)[: self.generation.sampling.logprobs or 0]
        return (Token(first), *(Token(token, -0.25, top) for token in rest))

    async def _items(self) -> AsyncIterator[Token | Finished]:
        limit = self.generation.max_tokens
        tokens = self.script.tokens if limit is None else self.script.tokens[:limit]
        for token in tokens:
            await self._wait_at(self.sent)
            self.sent += 1
            top = ((token, -0.5), (65, float("-inf")))
            wanted = self.generation.sampling.logprobs
            yield Token(token, None if wanted is None else -0.5, top[: wanted or 0])
            await asyncio.sleep(0)
        await self._wait_at(self.sent)
        self._end()
        if self.script.error is not None:
            raise self.script.error
        cut = len(tokens) < len(self.script.tokens)
        yield Finished("length" if cut else self.script.reason, self.timings)  # type: ignore[arg-type]

    async def _wait_at(self, position: int) -> None:
        if self.script.gate is not None and position == self.script.gate_after:
            gate = asyncio.ensure_future(self.script.gate.wait())
            closed = asyncio.ensure_future(self.closed.wait())
            await asyncio.wait((gate, closed), return_when=asyncio.FIRST_COMPLETED)
            gate.cancel()
            closed.cancel()
            if self.engine.is_closed:
                raise EngineFailed("The engine was stopped: send the request again.")

    def __aiter__(self) -> AsyncIterator[Token | Finished]:
        return self._items()

    def finish(self) -> None:
        self.engine.finished += 1
        self._end()

    async def aclose(self) -> None:
        if not self.ended:
            self.engine.cancelled += 1
        self._end()

    def _end(self) -> None:
        self.ended = True
        self.closed.set()


class FakeEngine:
    """Plays ``scripts`` in turn, the last one for ever; ``reject`` refuses what comes."""

    def __init__(
        self,
        *scripts: Script,
        template: str | None = TEMPLATE,
        special: Iterable[int] = (256, 257),
        embedding: Callable[[tuple[int, ...]], list[float]] | None = None,
        queue_limit: int = 4,
    ) -> None:
        self.vocabulary = FakeVocabulary(special)
        self.chat_template = template
        self.bos_token = "<s>"
        self.eos_token = "</s>"
        self.context_per_sequence = CONTEXT
        self.generations: list[Generation] = []
        self.streams: list[FakeStream] = []
        self.cancelled = 0
        self.finished = 0
        self.reject: Exception | None = None
        self.bad_grammar: str | None = None
        self.draining = False
        self.is_closed = False
        self.failed: str | None = None
        self.heartbeat_age = 0.01
        self._scripts = list(scripts) or [text_script("Hello")]
        self._embedding = embedding
        self._queue_limit = queue_limit

    def submit(self, generation: Generation) -> FakeStream:
        if self.draining:
            raise NotServing("The server is stopping: ask another one.", 1)
        if self.reject is not None:
            raise self.reject
        if len(generation.prompt) + (generation.max_tokens or 1) > CONTEXT:
            raise DoesNotFit(len(generation.prompt), generation.max_tokens or 1, CONTEXT)
        if len(self.running) >= 2 + self._queue_limit:
            raise QueueFull(self._queue_limit, 7)
        script = self._scripts[min(len(self.generations), len(self._scripts) - 1)]
        self.generations.append(generation)
        stream = FakeStream(self, generation, script)
        self.streams.append(stream)
        return stream

    @property
    def running(self) -> list[FakeStream]:
        return [stream for stream in self.streams if not stream.ended]

    def check_grammar(self, grammar: str) -> None:
        if self.bad_grammar is not None:
            raise InvalidGeneration(self.bad_grammar)

    async def embed(self, tokens: tuple[int, ...]) -> list[float]:
        if self._embedding is None:
            raise Rejected("This model gives no embeddings: serve an embedding model.")
        return self._embedding(tokens)

    async def compact(self) -> dict[str, object]:
        if self.reject is not None:
            raise self.reject
        state = {"cellsUsed": 12, "span": 16, "spanRatio": 0.25, "bytes": 16}
        packed = {**state, "span": 12, "spanRatio": 0.0}
        return {"method": "Compact", "seconds": 0.05, "before": state, "after": packed}

    def drain(self) -> None:
        self.draining = True

    @property
    def idle(self) -> bool:
        return not self.running

    def status(self) -> dict[str, object]:
        running = len(self.running)
        return {
            "kv": {
                "layout": "Partitioned",
                "maxSequences": 2,
                "contextPerSequence": CONTEXT,
                "contextTokens": 2 * CONTEXT,
                "bytes": 1024,
                "cellsUsed": 12,
                "span": 16,
                "spanRatio": 0.25,
                "sequences": {"running": running, "cached": 1, "free": 2 - running},
                "decode": {
                    "tokensPerSecond": 45.0,
                    "depth": 256,
                    "baselineTokensPerSecond": 50.0,
                    "slowdown": 0.1,
                },
                "hostCache": {"limitBytes": 0, "bytes": 0, "sequences": 0},
                "lastCure": None,
                "restored": {"sequences": 2, "tokens": 100, "bytes": 1, "seconds": 0.1},
                "kept": None,
            },
            "requests": {
                "running": running,
                "queued": 0,
                "queueLimit": self._queue_limit,
                "finished": 3,
                "failed": 0,
                "rejected": 0,
                "cancelled": self.cancelled,
            },
            "engine": {
                "threads": 2,
                "gpuLayers": 0,
                "devices": ["CPU"],
                "backend": "fake",
                "steps": 5,
                "heartbeatAgeSeconds": self.heartbeat_age,
                "failed": self.failed,
            },
            "counters": {
                "promptTokens": 10,
                "predictedTokens": 20,
                "cellsSaved": 6,
                "prefixHits": 2,
                "evictions": 1,
                "hostHits": 0,
                "hostEvictions": 0,
                "moved": 0,
                "postponed": 0,
                "decodeFailures": 0,
                "contextRebuilds": 0,
                "steps": 5,
                "stepSeconds": 0.5,
                "decodeSeconds": 0.4,
                "cures": {"Compact": 1, "Clear": 0, "Rebuild": 0},
                "cureSeconds": 0.05,
            },
            "memory": {"vramBytes": None, "vramBytesAtLoad": None},
        }

    def close(self, timeout: float) -> bool:
        self.is_closed = True
        for stream in self.running:
            stream.closed.set()
        return True
