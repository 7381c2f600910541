"""The API server as a test sees it: plain JSON in and out."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, TypeVar

from kubernetes import client, config

from llama_operator import api
from tests.cluster_fixtures import Cluster

T = TypeVar("T")

PATHS = {
    "llamadeployments": f"/apis/{api.API_VERSION}",
    "pods": "/api/v1",
    "services": "/api/v1",
    "serviceaccounts": "/api/v1",
    "resourcequotas": "/api/v1",
    "limitranges": "/api/v1",
    "horizontalpodautoscalers": "/apis/autoscaling/v2",
    "poddisruptionbudgets": "/apis/policy/v1",
    "events": "/apis/events.k8s.io/v1",
    "leases": "/apis/coordination.k8s.io/v1",
    "roles": "/apis/rbac.authorization.k8s.io/v1",
    "rolebindings": "/apis/rbac.authorization.k8s.io/v1",
}
MERGE = "application/merge-patch+json"


class Api:
    """Objects of one namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.namespace = namespace
        self._client = config.new_client_from_config(  # type: ignore[no-untyped-call]
            str(cluster.kubeconfig)
        )
        self.configuration: client.Configuration = self._client.configuration

    def close(self) -> None:
        self._client.close()

    def get(self, plural: str, name: str) -> dict[str, Any] | None:
        """The object; None when there is none."""
        try:
            return self._request("GET", self._path(plural, name))
        except client.ApiException as error:
            if error.status == 404:
                return None
            raise

    def version(self, plural: str) -> str:
        """The version that the collection is at now."""
        found: str = self._request("GET", self._path(plural))["metadata"]["resourceVersion"]
        return found

    def changes(self, plural: str, since: str, *, seconds: int = 1) -> list[dict[str, Any]]:
        """The events of a watch that begins at a version and ends after some seconds."""
        query = f"?watch=true&resourceVersion={since}&timeoutSeconds={seconds}"
        raw = self._send("GET", f"{self._path(plural)}{query}")
        return [json.loads(line) for line in raw.splitlines()]

    def list(self, plural: str) -> list[dict[str, Any]]:
        """All objects, in order of the name."""
        items: list[dict[str, Any]] = self._request("GET", self._path(plural))["items"]
        return sorted(items, key=lambda item: str(item["metadata"]["name"]))

    def create(
        self, plural: str, body: dict[str, Any], name: str = "", subresource: str = ""
    ) -> dict[str, Any]:
        return self._request("POST", self._path(plural, name, subresource), body)

    def patch(
        self, plural: str, name: str, body: dict[str, Any], subresource: str = ""
    ) -> dict[str, Any]:
        """A merge patch."""
        return self._request("PATCH", self._path(plural, name, subresource), body, MERGE)

    def delete(self, plural: str, name: str) -> None:
        """Begin to delete it; fine when it is gone."""
        try:
            self._request("DELETE", self._path(plural, name))
        except client.ApiException as error:
            if error.status != 404:
                raise

    def _path(self, plural: str, name: str = "", subresource: str = "") -> str:
        parts = [PATHS[plural], "namespaces", self.namespace, plural, name, subresource]
        return "/".join(part for part in parts if part)

    def _request(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._send(method, path, body, content_type))
        return answer

    def _send(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        headers = {"Accept": "application/json", "Content-Type": content_type}
        _, url, headers, *_ = self._client.param_serialize(
            method, path, header_params=headers, auth_settings=["BearerToken"]
        )
        response = self._client.call_api(method, url, header_params=headers, body=body)
        raw: bytes = response.read()
        if not 200 <= response.status < 300:
            raise client.ApiException.from_response(
                http_resp=response, body=raw.decode(), data=None
            )
        return raw


def eventually(look: Callable[[], T], *, seconds: float = 600) -> T:
    """What `look` gives once it is true. The time is for the slowest machine."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < deadline, f"It did not happen: {look}, last {found!r}"
        time.sleep(0.2)
