"""What clients do to a server that runs for days: ask, cancel, err, and ask too much."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

WORDS = (
    *("sea", "ship", "wind", "island", "harbour", "storm"),
    *("captain", "whale", "anchor", "sail", "tide", "lantern"),
)
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}
TOO_MUCH = (
    'root ::= "a" root root root | "a" root root | ""',
    'x ::= "a"{0,1000}\nroot ::= x{0,1000}',
    'root ::= ("a" | "a" "a" | [a-z])* root?',
)
BAD_REQUESTS: tuple[dict[str, Any], ...] = (
    {"messages": []},
    {"messages": [{"role": "user", "content": "x"}], "temperature": 9},
    {"messages": [{"role": "user", "content": "sea " * 4000}]},
    {"messages": [{"role": "user", "content": "x"}], "grammar": "root ::= ("},
    {"messages": [{"role": "user", "content": "x"}], "top_k": "many"},
)
CHAT = "/v1/chat/completions"
EXPECTED = {"bad": {400}, "too much": {200, 400, 429}}
USUAL = {200, 429}


@dataclass
class Traffic:
    """Clients of one server, and what came of their requests by (kind, status)."""

    client: httpx.AsyncClient
    random: random.Random
    answers: Counter[tuple[str, int]] = field(default_factory=Counter)

    async def run(self, clients: int, until: float) -> None:
        await asyncio.gather(*(self._client(until) for _ in range(clients)))

    async def _client(self, until: float) -> None:
        kinds: list[tuple[str, Callable[[], Awaitable[int]], int]] = [
            ("chat", self._chat, 6),
            ("conversation", self._conversation, 3),
            ("long", self._long, 2),
            ("cancel", self._cancel, 3),
            ("bad", self._bad, 2),
            ("schema", self._schema, 2),
            ("too much", self._too_much, 1),
            ("stop", self._stop, 2),
            ("embedding", self._embedding, 1),
        ]
        while time.monotonic() < until:
            name, act, _ = self.random.choices(kinds, [weight for *_, weight in kinds])[0]
            self.answers[name, await act()] += 1
            await asyncio.sleep(self.random.expovariate(5))

    @property
    def unexpected(self) -> int:
        """Answers that are no part of the contract: 500, 503, a broken stream."""
        return sum(
            count
            for (kind, status), count in self.answers.items()
            if status not in EXPECTED.get(kind, USUAL)
        )

    def _text(self, words: int) -> str:
        return " ".join(self.random.choices(WORDS, k=words))

    def _ask(self, content: str, **fields: Any) -> dict[str, Any]:
        messages = [{"role": "user", "content": content}]
        return {"messages": messages, "max_tokens": self.random.randint(4, 64), **fields}

    async def _post(self, body: dict[str, Any], path: str = CHAT) -> int:
        return (await self.client.post(path, json=body)).status_code

    async def _chat(self) -> int:
        return await self._stream(self._ask(f"Write about {self._text(3)}."))

    async def _stream(self, body: dict[str, Any], leave_after: int | None = None) -> int:
        async with self.client.stream("POST", CHAT, json=body | {"stream": True}) as stream:
            lines = 0
            last = ""
            async for line in stream.aiter_lines():
                lines += bool(line)
                last = line or last
                if leave_after is not None and lines > leave_after:
                    return stream.status_code
            broken = stream.status_code == 200 and last != "data: [DONE]"
            return 500 if broken else stream.status_code

    async def _conversation(self) -> int:
        messages: list[dict[str, str]] = []
        for _ in range(3):
            messages.append({"role": "user", "content": f"More about {self._text(2)}."})
            body = {"messages": messages, "max_tokens": 24}
            response = await self.client.post(CHAT, json=body)
            if response.status_code != 200:
                return response.status_code
            said = response.json()["choices"][0]["message"]["content"]
            messages.append({"role": "assistant", "content": said})
        return 200

    async def _long(self) -> int:
        return await self._post(self._ask(self._text(500)))

    async def _cancel(self) -> int:
        with contextlib.suppress(httpx.TransportError):
            return await self._stream(self._ask(self._text(100)), self.random.randint(0, 8))
        return 200

    async def _bad(self) -> int:
        return await self._post(self.random.choice(BAD_REQUESTS))

    async def _schema(self) -> int:
        wanted = {"name": "person", "schema": SCHEMA}
        body = self._ask("Who are you?", max_tokens=48)
        return await self._post(
            body | {"response_format": {"type": "json_schema", "json_schema": wanted}}
        )

    async def _too_much(self) -> int:
        return await self._post(self._ask("a a a", grammar=self.random.choice(TOO_MUCH)))

    async def _stop(self) -> int:
        return await self._post(self._ask(f"Write about {self._text(3)}.", stop=["e", "the"]))

    async def _embedding(self) -> int:
        return await self._post({"input": self._text(10)}, "/v1/embeddings")
