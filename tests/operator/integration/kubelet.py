"""What a kubelet would tell the API server of pods, told by the test."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from kubernetes import client

from tests.operator.integration.api import Api


class Kubelet:
    """Changes the status of pods; no node is needed for that."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def ready(self, name: str) -> None:
        self._conditions(name, "Running", "True")

    def unready(self, name: str) -> None:
        self._conditions(name, "Running", "False")

    def refuse(self, name: str, reason: str = "TopologyAffinityError") -> None:
        status = {"phase": "Failed", "reason": reason, "message": "Pod was rejected: no room."}
        self._api.patch("pods", name, {"status": status}, "status")

    def cannot_pull(self, name: str) -> None:
        waiting = {"reason": "ImagePullBackOff", "message": "Back-off pulling image."}
        status = {
            "phase": "Pending",
            "containerStatuses": [
                {
                    "name": "runtime",
                    "image": "",
                    "imageID": "",
                    "ready": False,
                    "restartCount": 0,
                    "state": {"waiting": waiting},
                }
            ],
        }
        self._api.patch("pods", name, {"status": status}, "status")

    def _conditions(self, name: str, phase: str, ready: str) -> None:
        status = {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}
        self._api.patch("pods", name, {"status": status}, "status")


class EagerKubelet:
    """Makes every pod Ready as soon as it sees it, and notes what was there."""

    def __init__(self, api: Api, saw: Callable[[list[dict[str, Any]]], None]) -> None:
        self._api = api
        self._kubelet = Kubelet(api)
        self._saw = saw
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._saw(self._api.list("pods"))
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.2):
            pods = self._api.list("pods")
            self._saw(pods)
            for pod in pods:
                if not is_ready(pod) and "deletionTimestamp" not in pod["metadata"]:
                    try:
                        self._kubelet.ready(pod["metadata"]["name"])
                    except client.ApiException as error:
                        if error.status not in (404, 409):
                            raise


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", [])
    return "deletionTimestamp" not in pod["metadata"] and any(
        item["type"] == "Ready" and item["status"] == "True" for item in conditions
    )
