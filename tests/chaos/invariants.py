"""What must never be seen, whatever fails, and what must be true at the end."""

from __future__ import annotations

from typing import Any

from tests.operator.integration.api import Api, eventually
from tests.operator.integration.deployment import NAME, OWNED, Deployment
from tests.operator.integration.kubelet import is_ready


class Watchman:
    """Looks at the pods all the time."""

    def __init__(self, replicas: int) -> None:
        self.replicas = replicas
        self.faults: list[str] = []
        self.scaling = False
        """Fewer replicas are asked for: pods go together, and some are there for a while yet."""
        self._serving = 0

    def saw(self, pods: list[dict[str, Any]]) -> None:
        """The pods at one moment."""
        names = [pod["metadata"]["name"] for pod in pods]
        if len(pods) > self.replicas or len(set(names)) != len(names):
            self.faults.append(f"{names} for {self.replicas} replicas")
        ready = sum(map(is_ready, pods))
        if self._serving - ready > 1 and not self.scaling:
            self.faults.append(f"{self._serving - ready} of {self._serving} went at once")
        self._serving = ready


def converged(chat: Deployment, replicas: int, image: str) -> bool:
    """Settled: exactly the pods that are wanted, made as they are wanted, and all serve."""
    pods = chat.pods()
    return bool(
        chat.settled()
        and [pod["metadata"]["name"] for pod in pods]
        == [f"{NAME}-{index}" for index in range(replicas)]
        and all(map(is_ready, pods))
        and {pod["spec"]["containers"][0]["image"] for pod in pods} <= {image}
    )


def check_end(api: Api, chat: Deployment, replicas: int, image: str) -> None:
    """It converges; nothing is orphaned, nothing is doubled, nothing is left over."""
    eventually(lambda: converged(chat, replicas, image))
    uid = chat.read()["metadata"]["uid"]
    assert [len(api.list(plural)) for plural in OWNED] == [replicas, 1, 1]
    for plural in OWNED:
        for item in api.list(plural):
            (owner,) = item["metadata"]["ownerReferences"]
            assert (owner["uid"], owner["controller"]) == (uid, True)
            assert "finalizers" not in item["metadata"]


def check_gone(api: Api) -> None:
    """Nothing of a deleted resource is left."""
    eventually(lambda: not any(api.list(plural) for plural in OWNED))
