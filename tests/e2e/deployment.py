"""One LlamaDeployment on a real cluster: apply it, wait for it, talk to it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx
import openai
import pytest
from tests.cluster_fixtures import Cluster

PATIENCE = 800.0
"""Seconds until a wait gives up; a hang guard, not a claim about speed."""


def until(what: str, probe: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """Poll until the probe returns something true and return it."""
    deadline = time.monotonic() + patience
    while True:
        found = probe()
        if found:
            return found
        if time.monotonic() > deadline:
            pytest.fail(f"Gave up waiting until {what}.")
        time.sleep(0.3)


def manifest(name: str, **spec: Any) -> dict[str, Any]:
    """A LlamaDeployment on CPU from the claim ``models``; keywords replace spec fields."""
    base: dict[str, Any] = {
        "replicas": 1,
        "model": {"source": "pvc://models/model.gguf"},
        "kv": {"maxSequences": 16, "contextPerSequence": 512},
        "resources": {"cpu": "250m", "memory": "1Gi", "gpus": 0},
        "numa": {"policy": "None"},
        "rollout": {"drainTimeout": "3m"},
        "nodeSelector": {"kubernetes.io/hostname": "node-0"},
    }
    return {
        "apiVersion": "llama-operator.dev/v1alpha1",
        "kind": "LlamaDeployment",
        "metadata": {"name": name},
        "spec": base | spec,
    }


@dataclass(frozen=True)
class Deployment:
    """A resource in a namespace of a cluster."""

    cluster: Cluster
    namespace: str
    name: str

    def apply(self, **spec: Any) -> None:
        """kubectl apply of the manifest with these spec fields."""
        self.cluster.ok(
            "apply", "-n", self.namespace, "-f", "-", stdin=json.dumps(manifest(self.name, **spec))
        )

    def read(self) -> dict[str, Any]:
        return self.cluster.get("llama", self.name, "-n", self.namespace)

    def condition(self, kind: str) -> dict[str, str]:
        """The condition of that type, or an empty one."""
        for condition in self.read().get("status", {}).get("conditions", []):
            if condition["type"] == kind:
                found: dict[str, str] = condition
                return found
        return {"type": kind, "status": "", "reason": "", "message": ""}

    def pods(self) -> list[dict[str, Any]]:
        """Its pods that aren't being deleted, by name."""
        listed = self.cluster.get(
            "pods", "-n", self.namespace, "-l", f"llama-operator.dev/deployment={self.name}"
        )["items"]
        alive = [pod for pod in listed if "deletionTimestamp" not in pod["metadata"]]
        return sorted(alive, key=lambda pod: str(pod["metadata"]["name"]))

    def ready_pods(self) -> list[dict[str, Any]]:
        return [pod for pod in self.pods() if is_ready(pod)]

    def wait_ready(self, replicas: int = 1) -> dict[str, Any]:
        """Wait for Ready=True of the current generation with that many pods."""

        def ready() -> dict[str, Any] | None:
            resource = self.read()
            status = resource.get("status", {})
            conditions = {c["type"]: c["status"] for c in status.get("conditions", [])}
            good = (
                conditions.get("Ready") == "True"
                and status["observedGeneration"] == resource["metadata"]["generation"]
                and status.get("readyReplicas", 0) == replicas
                and status.get("updatedReplicas", 0) == replicas
            )
            return resource if good else None

        try:
            found: dict[str, Any] = until(f"{self.name} is Ready with {replicas} pods", ready)
        except BaseException:
            print(json.dumps(self.read().get("status"), indent=1))
            raise
        if replicas:
            self.wait_reachable()
        return found

    def wait_reachable(self) -> None:
        """Wait until the Service answers: this node's proxy hears of a Ready pod later."""
        url = f"{self.base_url()}/models"

        def answered() -> bool:
            try:
                httpx.get(url, timeout=60)
            except httpx.TransportError:
                return False
            return True

        until(f"the Service of {self.name} answers", answered)

    def base_url(self) -> str:
        """The Service's cluster address, through kube-proxy."""
        service = self.cluster.get("service", self.name, "-n", self.namespace)
        return f"http://{service['spec']['clusterIP']}/v1"

    def client(self, retries: int = 0) -> openai.OpenAI:
        return openai.OpenAI(
            base_url=self.base_url(), api_key="unused", max_retries=retries, timeout=300
        )

    def ask(self, question: str, *, retries: int = 0, **options: Any) -> str:
        """One streamed greedy answer; fails unless the stream ends as it should."""
        parameters: dict[str, Any] = {"max_tokens": 32, "temperature": 0} | options
        stream = self.client(retries).chat.completions.create(
            model=self.name,
            messages=[{"role": "user", "content": question}],
            stream=True,
            **parameters,
        )
        text, finish = "", None
        for chunk in stream:
            for choice in chunk.choices:
                text += choice.delta.content or ""
                finish = choice.finish_reason or finish
        assert finish in ("stop", "length"), f"The stream broke off after {text!r}."
        assert text
        return text

    def ask_all(self, questions: list[str]) -> list[str]:
        """All at once, each on a connection of its own."""
        with ThreadPoolExecutor(len(questions)) as pool:
            return list(pool.map(self.ask, questions))

    def runtime_status(self, pod: dict[str, Any]) -> dict[str, Any]:
        """GET /status of a pod."""
        response = httpx.get(f"http://{pod['status']['podIP']}:8081/status", timeout=60)
        document: dict[str, Any] = response.raise_for_status().json()
        return document


def is_ready(pod: dict[str, Any]) -> bool:
    """Whether the pod's Ready condition is true."""
    conditions = pod["status"].get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
