"""Full lists now and then: what the watches missed is found, and what they owe is known."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

import aiohttp

from llama_operator.cache import Cache
from llama_operator.freshness import Freshness
from llama_operator.kube import WATCHED, ApiException, Kubernetes
from llama_operator.metrics import MISSED_CHANGES, RESYNCS
from llama_operator.names import Key

logger = logging.getLogger(__name__)

SETTLE_SECONDS = 1.0
"""Between the first sign of a new list by the watch and our own: it comes in many pieces."""


LATE_SECONDS = 15.0
"""The watch usually tells of a change within milliseconds."""


class Resync:
    """Lists everything at an interval, and at once when a watch had to begin anew.

    kopf lists again when a watch has lost its place (410 Gone) and does not tell of what
    was deleted in between.
    """

    def __init__(
        self,
        kubernetes: Kubernetes,
        cache: Cache,
        freshness: Freshness,
        *,
        namespaces: Sequence[str],
        interval: float,
        add: Callable[[Key], None],
    ) -> None:
        self._kubernetes = kubernetes
        self._cache = cache
        self._freshness = freshness
        self._scopes: tuple[str | None, ...] = tuple(namespaces) or (None,)
        self._interval = interval
        self._add = add
        self._asked = asyncio.Event()

    def ask(self) -> None:
        """Have everything listed soon."""
        self._asked.set()

    async def run(self) -> None:
        """Resync until cancelled; a failure is logged and the next one comes in its time."""
        while True:
            await self._due()
            try:
                MISSED_CHANGES.inc(await self.once())
            except (ApiException, aiohttp.ClientError, TimeoutError) as error:
                logger.warning("Failed to list everything: %s", error)

    async def once(self) -> int:
        """List everything, take what is news, and have every LlamaDeployment looked at.

        Gives how many LlamaDeployments there was news of.
        """
        news: set[Key] = set()
        for kind in WATCHED.values():
            for scope in self._scopes:
                comparison, listed_at = self._cache.comparison(kind.kind, scope), 0
                async for page, version in self._kubernetes.pages(kind, scope):
                    news |= comparison.take(page)
                    listed_at = listed_at or version
                news |= comparison.end(listed_at)
        self._freshness.listed()
        RESYNCS.inc()
        for key in {*news, *self._cache.keys()}:
            self._add(key)
        return len(news)

    async def _due(self) -> None:
        """Until the interval is over, someone asks, or a watch owes something or is silent.

        It owes what was deleted while it was away for ever: a list settles that.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + self._interval
        while (left := end - loop.time()) > 0:
            try:
                await asyncio.wait_for(self._asked.wait(), min(left, LATE_SECONDS))
            except TimeoutError:
                if self._cache.lag() >= LATE_SECONDS or self._freshness.suspicious():
                    return
            else:
                await asyncio.sleep(SETTLE_SECONDS)
                self._asked.clear()
                return
