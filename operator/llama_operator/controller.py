"""Joins the parts: events fill the cache, the cache fills the queue, the queue reconciles."""

from __future__ import annotations

import asyncio
import random
import time

import aiohttp

from llama_operator.act import Actor
from llama_operator.api import KIND
from llama_operator.cache import Cache, owner_key
from llama_operator.kube import POD, Kubernetes
from llama_operator.metrics import QUEUE_DEPTH, RESOURCES, STREAM_LAG
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
    ) -> None:
        """`session` asks the runtimes; `instance` names this process in events."""
        self._workers = settings.workers
        self._news: set[str] = set()
        self._listed: set[str] = set()
        self.cache = Cache(time.monotonic, self._gone)
        self._poller = Poller(lambda ip: ask(session, ip), self._add)
        reconciler = Reconciler(
            self.cache,
            Actor(kubernetes, self.cache, instance=instance),
            self._poller.readings,
            default_image=settings.runtime_image,
        )
        self._queue: WorkQueue[Key] = WorkQueue(
            reconciler.reconcile,
            random=random.random,
            call_later=asyncio.get_running_loop().call_later,
            depth_changed=QUEUE_DEPTH.set,
        )
        self._resync = Resync(
            kubernetes,
            self.cache,
            namespaces=settings.namespaces,
            interval=settings.resync_seconds,
            add=self._add,
        )
        STREAM_LAG.set_function(self.cache.lag)

    async def run(self) -> None:
        """Work and resync until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._queue.run(self._workers))
            group.create_task(self._resync.run())

    def seen(self, manifest: Manifest) -> None:
        """The watch told of an object; it is remembered before anything is decided."""
        if self.cache.put(manifest):
            self._news.add(manifest["metadata"]["uid"])

    def changed(self, manifest: Manifest, *, listed: bool) -> None:
        """Something may have to be done about an object that was `seen`.

        `listed`: the watch began (anew) and this is a part of what there is.
        """
        uid = manifest["metadata"]["uid"]
        if listed and uid in self._listed:
            self._resync.ask()
        self._listed.add(uid)
        key = owner_key(manifest)
        if key is None:
            return
        if manifest["kind"] == POD.kind and (pod := read_pod(key.name, manifest)) is not None:
            self._poller.watch(key, pod)
        if uid in self._news:
            self._news.discard(uid)
            self._count(manifest)
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
        uid = manifest["metadata"]["uid"]
        self._listed.discard(uid)
        self._news.discard(uid)
        self._poller.stop(uid)
        self._count(manifest)

    def _count(self, manifest: Manifest) -> None:
        if manifest["kind"] == KIND:
            RESOURCES.set(len(self.cache.keys()))
