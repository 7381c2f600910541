"""Holds the Lease by which one of several operators acts, and tells when it may not any more."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import NoReturn

import aiohttp

from llama_operator import lease
from llama_operator.kube import LEASE, ApiException, Kubernetes, message_of
from llama_operator.lease import Sighting
from llama_operator.metrics import LEADING
from llama_operator.names import Key, Manifest

logger = logging.getLogger(__name__)

_FAILURES = (ApiException, aiohttp.ClientError, TimeoutError)
"""What a request can end with; the next one may fare better."""


class NotLeading(Exception):
    """This process may not write: another one may lead by now."""


class Leadership:
    """One candidate for the lease."""

    def __init__(
        self,
        kubernetes: Kubernetes,
        key: Key,
        me: str,
        *,
        clock: Callable[[], float],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`key` names the lease, `me` this process; `clock` also counts a pause of the machine."""
        self._kubernetes = kubernetes
        self._key = key
        self._me = me
        self._clock = clock
        self._now = now
        self._sleep = sleep
        self._lease: Manifest | None = None
        self._deadline: float | None = None
        self.standby = False
        """Another process leads, by the last look at the lease."""

    @property
    def leading(self) -> bool:
        """The lease is held and its deadline has not passed."""
        return self._deadline is not None and self._clock() < self._deadline

    def seconds_left(self) -> float:
        """How long this process may still write. Raises NotLeading when it may not."""
        left = 0.0 if self._deadline is None else self._deadline - self._clock()
        if left <= 0:
            raise NotLeading(
                f"The Lease {self._key} was not renewed in time: another operator may lead."
            )
        return left

    async def acquire(self) -> None:
        """Wait until this process leads; an API server that does not answer is waited for."""
        seen: Sighting | None = None
        said = ""
        while not self.leading:
            try:
                seen, news = await self._try(seen)
            except _FAILURES as error:
                self.standby = False
                news = f"Failed to take the Lease {self._key}: {_said(error)}"
            if news != said:
                logger.info("%s", news)
                said = news
            if not self.leading:
                await self._sleep(lease.RETRY_SECONDS)

    async def _try(self, before: Sighting | None) -> tuple[Sighting, str]:
        """Take the lease if that is due; what was seen, and how it stands in words."""
        started = self._clock()
        found = await self._read()
        seen = lease.sight(before, found, self._clock())
        if found is not None and lease.may_take(found, self._me, seen, self._clock()):
            self._take(await self._claim(found), started)
        elif found is None and lease.may_create(before, seen, self._clock()):
            self._take(await self._create(), started)
        self.standby = not self.leading
        if self.leading:
            return seen, f"Lead by the Lease {self._key}"
        return seen, f"Wait: {lease.holder(found or {}) or 'nobody'} leads"

    async def hold(self) -> NoReturn:
        """Renew until that is impossible. Raises NotLeading: nothing may be written then."""
        wait = lease.RENEW_SECONDS
        while True:
            await self._sleep(min(wait, self.seconds_left()))
            self.seconds_left()
            wait = lease.RENEW_SECONDS if await self._renew() else 1.0

    async def release(self) -> None:
        """Give the lease back, once nothing is written any more, if it is still held."""
        if not self.leading or self._lease is None:
            return
        self._deadline = None
        LEADING.set(0)
        try:
            await self._replace(lease.released(self._lease, self._now()))
        except _FAILURES as error:
            logger.info("Failed to give back the Lease %s: %s", self._key, _said(error))

    async def _renew(self) -> bool:
        started = self._clock()
        assert self._lease is not None
        try:
            self._take(await self._claim(self._lease), started)
        except _FAILURES as error:
            if not _conflict(error):
                logger.warning("Failed to renew the Lease %s: %s", self._key, _said(error))
                return False
        else:
            return True
        return await self._look_again()

    async def _look_again(self) -> bool:
        """Someone changed or deleted the lease: the one who took it, or someone who edited it."""
        try:
            found = await self._read()
            if found is None:
                started = self._clock()
                self._take(await self._create(), started)
                return True
        except _FAILURES:
            return False
        if lease.holder(found) != self._me:
            self._deadline = None
            LEADING.set(0)
            raise NotLeading(
                f"The Lease {self._key} was taken by {lease.holder(found) or 'nobody'}."
            )
        self._lease = found
        return False

    def _take(self, held: Manifest, started: float) -> None:
        """The lease is ours; counted from before the request, whenever its answer came."""
        self._lease = held
        self._deadline = started + lease.DEADLINE_SECONDS
        LEADING.set(1)

    async def _read(self) -> Manifest | None:
        try:
            async with asyncio.timeout(lease.REQUEST_SECONDS):
                return await self._kubernetes.get(LEASE, self._key.namespace, self._key.name)
        except ApiException as error:
            if error.status == 404:
                return None
            raise

    async def _create(self) -> Manifest:
        wanted = lease.new_lease(self._key, self._me, self._now())
        async with asyncio.timeout(lease.REQUEST_SECONDS):
            return await self._kubernetes.create(LEASE, wanted)

    async def _claim(self, found: Manifest) -> Manifest:
        return await self._replace(lease.claimed(found, self._me, self._now()))

    async def _replace(self, wanted: Manifest) -> Manifest:
        async with asyncio.timeout(lease.REQUEST_SECONDS):
            return await self._kubernetes.replace(LEASE, wanted)


def _conflict(error: Exception) -> bool:
    """Another one was faster, or the lease has gone: look again."""
    return isinstance(error, ApiException) and error.status in (404, 409)


def _said(error: Exception) -> str:
    return message_of(error) if isinstance(error, ApiException) else str(error) or "no answer"
