"""Joins the parts: events fill the cache, the cache fills the queue, the queue reconciles."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime

import aiohttp

from llama_operator.act import Actor
from llama_operator.cache import Cache, owner_key
from llama_operator.freshness import Freshness
from llama_operator.kube import POD, WATCHED, Kubernetes
from llama_operator.metrics import QUEUE_DEPTH, RESOURCES, STREAM_LAG, STREAM_SILENCE
from llama_operator.names import Key, Manifest
from llama_operator.pods import read_pod
from llama_operator.poller import Poller
from llama_operator.queue import WorkQueue
from llama_operator.reconciler import Reconciler
from llama_operator.resync import Resync
from llama_operator.runtime_client import ask
from llama_operator.settings import Settings


class Controller:
    """Everything between the watches and the API server. Made inside a running event loop."""

    def __init__(
        self,
        kubernetes: Kubernetes,
        session: aiohttp.ClientSession,
        settings: Settings,
        *,
        instance: str,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`session` asks the runtimes; `instance` names this process in events."""
        self._workers = settings.workers
        self._begun: float | None = None
        self.cache = Cache(time.monotonic, self._gone)
        self._poller = Poller(lambda ip: ask(session, ip), self._add)
        reconciler = Reconciler(
            self.cache,
            Actor(kubernetes, self.cache, instance=instance),
            self._poller.readings,
            default_image=settings.runtime_image,
            max_concurrent_restarts=settings.max_concurrent_restarts,
            now=now,
        )
        self._queue: WorkQueue[Key] = WorkQueue(
            reconciler.reconcile,
            random=random.random,
            call_later=asyncio.get_running_loop().call_later,
            depth_changed=QUEUE_DEPTH.set,
        )
        self.freshness = Freshness(
            time.monotonic,
            (
                kind.path(namespace)
                for kind in WATCHED.values()
                for namespace in settings.namespaces or (None,)
            ),
        )
        self._resync = Resync(
            kubernetes,
            self.cache,
            self.freshness,
            namespaces=settings.namespaces,
            interval=settings.resync_seconds,
            add=self._add,
        )
        STREAM_LAG.set_function(self.cache.lag)
        STREAM_SILENCE.set_function(self.freshness.silence)
        RESOURCES.set_function(lambda: len(self.cache.keys()))

    async def begin(self) -> None:
        """List everything, so that nothing is decided on half of what there is.

        Raises what `Kubernetes.list` raises.
        """
        self.freshness.begin()
        await self._resync.once()
        self._begun = time.monotonic()

    @property
    def told(self) -> bool:
        """The watches have told of everything that `begin` listed."""
        if self._begun is None:
            return False
        lag = self.cache.lag()
        return lag == 0 or lag < time.monotonic() - self._begun

    async def run(self) -> None:
        """Work and resync until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._queue.run(self._workers))
            group.create_task(self._resync.run())

    def changed(self, manifest: Manifest, *, listed: bool) -> None:
        """The watch told of an object.

        `listed`: the watch began (anew), and this is a part of what there is.
        """
        if listed and self.told:
            self._resync.ask()
        news = self.cache.put(manifest)
        key = owner_key(manifest)
        if key is None:
            return
        if manifest["kind"] == POD.kind and (pod := read_pod(key.name, manifest)) is not None:
            self._poller.watch(key, pod)
        if news:
            self._add(key)

    def gone(self, manifest: Manifest) -> None:
        """The watch told that an object does not exist any more."""
        self.cache.drop(manifest)
        if (key := owner_key(manifest)) is not None:
            self._add(key)

    def close(self) -> None:
        """Ask no runtime any more."""
        self._poller.close()

    def _add(self, key: Key) -> None:
        self._queue.add(key)

    def _gone(self, manifest: Manifest) -> None:
        self._poller.stop(manifest["metadata"]["uid"])
