"""Thousands of LlamaDeployments: made, waited for, changed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import aiohttp

from llama_operator.api import API_VERSION, KIND, PLURAL
from llama_operator.connection import Connection
from tests.bench.operator.cluster import NAMESPACE

AT_ONCE = 24
PATIENCE_SECONDS = 1500
RESOURCES = f"/apis/{API_VERSION}/namespaces/{NAMESPACE}/{PLURAL}"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


class Fleet:
    """What the bench asks of the API server, as an administrator."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._news = asyncio.Condition()
        self._ready: set[str] = set()
        self._pods: dict[str, float] = {}

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Follow the resources and the pods meanwhile."""
        async with asyncio.TaskGroup() as group:
            watches = [
                group.create_task(self._follow(RESOURCES, self._resource)),
                group.create_task(self._follow(PODS, self._pod)),
            ]
            yield
            for watch in watches:
                watch.cancel()

    async def create(self, number: int) -> None:
        """Make resources `bench-0` and so on, as fast as the API server takes them."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(index: int) -> None:
            async with gate:
                await self._send("POST", RESOURCES, manifest(index))

        await asyncio.gather(*(one(index) for index in range(number)))

    async def all_ready(self, number: int) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS), self._news:
            await self._news.wait_for(lambda: len(self._ready) >= number)

    async def reaction(self, index: int) -> float:
        """Seconds from asking for a second pod until it exists, as a watch tells it."""
        began = time.perf_counter()
        path = f"{RESOURCES}/bench-{index}"
        await self._send("PATCH", path, {"spec": {"replicas": 2}})
        name = f"bench-{index}-1"
        async with asyncio.timeout(PATIENCE_SECONDS), self._news:
            await self._news.wait_for(lambda: name in self._pods)
        return self._pods[name] - began

    async def _send(self, method: str, path: str, body: dict[str, Any]) -> None:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        async with self._connection.session.request(
            method,
            f"{self._connection.server}{path}",
            data=json.dumps(body),
            headers={"Content-Type": kind},
        ) as answer:
            if answer.status >= 300:
                raise RuntimeError(f"{method} {path}: {await answer.text()}")

    async def _follow(self, path: str, tell: Callable[[dict[str, Any]], None]) -> None:
        """List and watch for ever: the API server ends a watch that cannot keep up."""
        while True:
            async with self._get(path) as answer:
                listed = await answer.json()
            for item in listed["items"]:
                tell(item)
            await self._tell_waiters()
            since = listed["metadata"]["resourceVersion"]
            async with self._get(f"{path}?watch=true&resourceVersion={since}") as answer:
                async for line in answer.content:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        break
                    tell(event["object"])
                    await self._tell_waiters()

    def _get(self, path: str) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        return self._connection.session.get(
            f"{self._connection.server}{path}",
            timeout=aiohttp.ClientTimeout(total=None),
            read_bufsize=1 << 20,
        )

    async def _tell_waiters(self) -> None:
        async with self._news:
            self._news.notify_all()

    def _resource(self, found: dict[str, Any]) -> None:
        conditions = found.get("status", {}).get("conditions", [])
        if any(item["type"] == "Ready" and item["status"] == "True" for item in conditions):
            self._ready.add(found["metadata"]["name"])

    def _pod(self, found: dict[str, Any]) -> None:
        self._pods.setdefault(found["metadata"]["name"], time.perf_counter())


def manifest(index: int) -> dict[str, Any]:
    """A resource of one pod on the CPU."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": f"bench-{index}"},
        "spec": {
            "model": {"source": "pvc://models/m.gguf"},
            "resources": {"cpu": 1, "memory": "1Gi", "gpus": 0},
        },
    }
