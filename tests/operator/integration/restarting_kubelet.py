"""A kubelet and runtimes that answer what they are asked for, told by the test."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kubernetes import client

from tests.operator.integration.api import Api
from tests.operator.integration.kubelet import is_ready

REQUEST = "llama-operator.dev/request"


class RestartingKubelet:
    """Makes every pod Ready, restarts the containers that are asked to, and counts."""

    def __init__(self, api: Api, script: Path) -> None:
        self._api = api
        self._script = script
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._answers: dict[str, dict[str, Any]] = {}
        self.fewest_ready = 10**9
        self.restarts: dict[str, list[str]] = {}
        """Ids of the requests that were done, and UIDs of the pods that were seen, by name."""

    def __enter__(self) -> RestartingKubelet:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def count(self, name: str) -> int:
        """How often the pod was restarted so far, in its container or as a whole."""
        return len(self.restarts.get(name, [])) - 1

    def watch_from_now(self) -> None:
        self.fewest_ready = 10**9

    def _run(self) -> None:
        while not self._stop.wait(0.1):
            try:
                self._look()
            except client.ApiException as error:
                if error.status not in (404, 409):
                    raise

    def _look(self) -> None:
        for pod in self._count_ready():
            if "deletionTimestamp" not in pod["metadata"]:
                self._serve(pod)

    def _count_ready(self) -> list[dict[str, Any]]:
        """The operator's pods as they are now; a pod that the test made has no owner."""
        pods = [pod for pod in self._api.list("pods") if pod["metadata"].get("ownerReferences")]
        self.fewest_ready = min(self.fewest_ready, sum(map(is_ready, pods)))
        return pods

    def _serve(self, pod: dict[str, Any]) -> None:
        metadata = pod["metadata"]
        name, uid = metadata["name"], metadata["uid"]
        seen = self.restarts.setdefault(name, [])
        if uid not in self._answers:
            seen.append(uid)
            self._answers[uid] = {}
        container = next(iter(pod["status"].get("containerStatuses", [])), {"restartCount": 0})
        request = json.loads(metadata["annotations"].get(REQUEST, "{}"))
        if request and self._answers[uid].get("id") != request["id"]:
            seen.append(request["id"])
            self._answers[uid] = {**request, "state": "Done"}
            self._tell()
            if request["action"] == "Restart":
                self._set(pod, "False", container["restartCount"])
                self._count_ready()
                self._set(pod, "False", container["restartCount"] + 1)
                self._set(pod, "True", container["restartCount"] + 1)
        elif not is_ready(pod):
            self._tell()
            self._set(pod, "True", container["restartCount"])

    def _address(self, uid: str) -> str:
        return (
            f"10.99.{list(self._answers).index(uid) // 250}.{list(self._answers).index(uid) % 250}"
        )

    def _set(self, pod: dict[str, Any], ready: str, restarts: int) -> None:
        moment = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        container = {
            "name": "runtime",
            "image": "llama-runtime:1",
            "imageID": "",
            "ready": ready == "True",
            "restartCount": restarts,
            "state": {"running": {}},
        }
        address = self._address(pod["metadata"]["uid"])
        status = {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": moment}],
            "containerStatuses": [container],
        }
        self._api.patch("pods", pod["metadata"]["name"], {"status": status}, "status")

    def _tell(self) -> None:
        """What the runtimes answer from now on."""
        answers = {
            self._address(uid): {
                "version": 1,
                "state": "Serving",
                "model": {"loaded": True},
                "kv": {"spanRatio": 0.0, "decode": {"tokensPerSecond": 20.0}},
                "memory": {"rssBytes": 1 << 30, "growth": 0.0},
                "numa": {"verdict": "SingleNode", "cpus": "0-1", "mems": "0"},
                "request": answer or None,
            }
            for uid, answer in self._answers.items()
        }
        temporary = self._script / "runtimes.new"
        temporary.write_text(json.dumps(answers))
        temporary.replace(self._script / "runtimes.json")
