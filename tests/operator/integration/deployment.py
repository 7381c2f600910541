"""One LlamaDeployment and what belongs to it."""

from __future__ import annotations

from typing import Any

from llama_operator.api import API_VERSION, KIND, LlamaDeploymentSpec
from llama_operator.template_hash import template_hash
from tests.operator.integration.api import Api, eventually
from tests.operator.integration.kubelet import Kubelet, is_ready

NAME = "chat"
OWNED = ("pods", "services", "poddisruptionbudgets")


def empty(api: Api) -> None:
    """Delete everything in the namespace that a test made, and wait until it is gone."""
    plurals = (
        "llamadeployments",
        *OWNED,
        "resourcequotas",
        "limitranges",
        "horizontalpodautoscalers",
    )

    def gone() -> bool:
        found = [(plural, item["metadata"]) for plural in plurals for item in api.list(plural)]
        for plural, metadata in found:
            if metadata.get("finalizers"):
                api.patch(plural, metadata["name"], {"metadata": {"finalizers": None}})
            if "deletionTimestamp" not in metadata:
                api.delete(plural, metadata["name"])
        return not found

    eventually(gone)


class Deployment:
    """`chat` in the test's namespace."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._kubelet = Kubelet(api)

    def create(self, *, annotations: dict[str, str] | None = None, **spec: Any) -> None:
        manifest = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": NAME, "annotations": annotations},
            "spec": {
                "model": {"source": "pvc://models/m.gguf"},
                "resources": {"gpus": 0},
                # The tests play the kubelet: no real one may take these pods.
                "schedulerName": "nobody",
                **spec,
            },
        }
        self._api.create("llamadeployments", manifest)

    def change(self, **spec: Any) -> None:
        self._api.patch("llamadeployments", NAME, {"spec": spec})

    def delete(self) -> None:
        self._api.delete("llamadeployments", NAME)

    def read(self) -> dict[str, Any]:
        found = self._api.get("llamadeployments", NAME)
        assert found is not None
        return found

    @property
    def status(self) -> dict[str, Any]:
        """The status, once it is about the present spec; else empty."""
        found = self.read()
        status: dict[str, Any] = found.get("status", {})
        current = status.get("observedGeneration") == found["metadata"]["generation"]
        return status if current else {}

    def condition(self, kind: str) -> tuple[str, str]:
        """Status and reason of a condition."""
        for item in self.status.get("conditions", []):
            if item["type"] == kind:
                return item["status"], item["reason"]
        return "", ""

    def message(self, kind: str) -> str:
        for item in self.status.get("conditions", []):
            if item["type"] == kind:
                return str(item["message"])
        return ""

    def settled(self) -> bool:
        """Ready by kstatus's rules."""
        return self.condition("Ready")[0] == "True" and self.condition("Reconciling")[0] == "False"

    def retry(self, index: int) -> dict[str, Any]:
        """When and why a refused pod is tried again; empty when it is not refused."""
        rows = self.status.get("pods", [])
        found: dict[str, Any] = rows[index].get("retry", {}) if index < len(rows) else {}
        return found

    def pods(self) -> list[dict[str, Any]]:
        return self._api.list("pods")

    def names(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.pods()]

    def uids(self) -> dict[str, str]:
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in self.pods()}

    def template_hash(self) -> str:
        return template_hash(LlamaDeploymentSpec.model_validate(self.read()["spec"]))

    def bring_up(self, **spec: Any) -> None:
        """Create it, make its pods Ready and wait until it has settled."""
        self.create(**spec)
        replicas = spec.get("replicas", 1)
        for name in [f"{NAME}-{index}" for index in range(replicas)]:
            self._kubelet.ready(self.wait_for_pod(name))
        eventually(self.settled)

    def wait_for_pod(self, name: str) -> str:
        """The name, once there is a pod of it."""
        eventually(lambda: self._api.get("pods", name))
        return name

    def owned(self) -> list[str]:
        return [
            f"{plural}/{item['metadata']['name']}"
            for plural in OWNED
            for item in self._api.list(plural)
        ]

    def written(self) -> dict[str, Any]:
        """What the operator wrote to every object and when, by the API server's own account."""
        items = [self.read(), *(item for plural in OWNED for item in self._api.list(plural))]
        return {
            item["metadata"]["uid"]: [
                entry
                for entry in item["metadata"]["managedFields"]
                if entry["manager"] == "llama-operator"
            ]
            for item in items
        }

    def events(self) -> list[str]:
        """Reasons of the events about it."""
        uid = self.read()["metadata"]["uid"]
        return [
            event["reason"]
            for event in self._api.list("events")
            if event["regarding"].get("uid") == uid
        ]

    def ready_pods(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.pods() if is_ready(pod)]
