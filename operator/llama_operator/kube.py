"""The Kubernetes API as plain dicts: what the API server says is taken as it is."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

import aiohttp
from yarl import URL

from llama_operator import api, lease
from llama_operator.connection import Connection
from llama_operator.metrics import API_REQUESTS
from llama_operator.names import FIELD_MANAGER, OWNED_SELECTOR, Manifest

REQUEST_SECONDS: Final = 30
PAGE: Final = 100


class ApiException(Exception):
    """The API server refuses."""

    def __init__(self, status: int, reason: str, body: str) -> None:
        super().__init__(f"{status} {reason}: {body[:300]}")
        self.status = status
        self.reason = reason
        self.body = body


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of object and where the API server keeps it."""

    kind: str
    api_version: str
    plural: str
    label_selector: str = ""

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    def path(self, namespace: str | None, name: str | None = None, part: str = "") -> str:
        """The URL path of one object, of its subresource, or of the collection."""
        prefix = "/apis/" if self.group else "/api/"
        scope = f"/namespaces/{quote(namespace)}" if namespace else ""
        tail = f"/{quote(name)}" if name else ""
        subresource = f"/{part}" if part else ""
        return f"{prefix}{self.api_version}{scope}/{self.plural}{tail}{subresource}"


LLAMA_DEPLOYMENT: Final = Kind(api.KIND, api.API_VERSION, api.PLURAL)
POD: Final = Kind("Pod", "v1", "pods", OWNED_SELECTOR)
SERVICE: Final = Kind("Service", "v1", "services", OWNED_SELECTOR)
POD_DISRUPTION_BUDGET: Final = Kind(
    "PodDisruptionBudget", "policy/v1", "poddisruptionbudgets", OWNED_SELECTOR
)
EVENT: Final = Kind("Event", "events.k8s.io/v1", "events")
LEASE: Final = Kind(lease.KIND, lease.API_VERSION, "leases")

OWNED: Final = {kind.kind: kind for kind in (POD, SERVICE, POD_DISRUPTION_BUDGET)}
WATCHED: Final = {LLAMA_DEPLOYMENT.kind: LLAMA_DEPLOYMENT, **OWNED}


class Kubernetes:
    """Requests to the API server.

    Every method raises ApiException when the server refuses, aiohttp.ClientError or
    TimeoutError when it cannot be reached. Those that write also raise what the fence raises.
    """

    def __init__(
        self, connection: Connection, fence: Callable[[], float] = lambda: REQUEST_SECONDS
    ) -> None:
        """`fence` is asked right before each write how many seconds it may take."""
        self._connection = connection
        self._fence = fence

    async def create(self, kind: Kind, manifest: Manifest) -> Manifest:
        """Make an object that does not exist; 409 when it does. The object as it was made."""
        path = kind.path(manifest["metadata"]["namespace"])
        query = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}
        return await self._request("POST", kind, path, query, manifest)

    async def replace(self, kind: Kind, manifest: Manifest) -> Manifest:
        """Put an object in the place of its resourceVersion; 409 when there is a newer one."""
        metadata = manifest["metadata"]
        path = kind.path(metadata["namespace"], metadata["name"])
        query = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}
        return await self._request("PUT", kind, path, query, manifest)

    async def apply(self, kind: Kind, manifest: Manifest, subresource: str = "") -> Manifest:
        """Server-side apply: exactly these fields are ours. The object as it is then."""
        metadata = manifest["metadata"]
        path = kind.path(metadata["namespace"], metadata["name"], subresource)
        query = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict", "force": "true"}
        return await self._request("PATCH", kind, path, query, manifest)

    async def merge(self, kind: Kind, namespace: str, name: str, body: Manifest) -> Manifest:
        """A merge patch: these fields and no others. The object as it is then.

        A `metadata.uid` in the body that is not the object's is refused with 409 or 422.
        """
        query = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}
        path = kind.path(namespace, name)
        return await self._request("PATCH", kind, path, query, body, "application/merge-patch+json")

    async def evict(self, namespace: str, name: str, uid: str) -> None:
        """Evict the pod with this UID (policy/v1); 429 while its disruption budget forbids it."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        await self._request("POST", POD, POD.path(namespace, name, "eviction"), {}, body)

    async def delete(self, kind: Kind, namespace: str, name: str, uid: str) -> Manifest:
        """Begin to delete the object with this UID; 409 when the name is another's by now."""
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
        }
        return await self._request("DELETE", kind, kind.path(namespace, name), {}, body)

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest:
        """One object; 404 when there is none."""
        return await self._request("GET", kind, kind.path(namespace, name), {})

    async def pages(
        self, kind: Kind, namespace: str | None
    ) -> AsyncIterator[tuple[list[Manifest], int]]:
        """All objects that the kind's selector selects, and the version of the list.

        In pages, so that no more than one is in memory as it came.
        """
        query = {"limit": str(PAGE), "labelSelector": kind.label_selector}
        token: str | None = ""
        while token is not None:
            page = await self._request("GET", kind, kind.path(namespace), query)
            items = [
                {"apiVersion": kind.api_version, "kind": kind.kind, **item}
                for item in page["items"]
            ]
            yield items, int(page["metadata"]["resourceVersion"])
            token = page["metadata"].get("continue") or None
            query["continue"] = token or ""

    async def serves(self, kind: Kind) -> bool:
        """Whether the API server knows the kind."""
        try:
            found = await self._request("GET", kind, f"/apis/{kind.api_version}", {})
        except ApiException as error:
            if error.status == 404:
                return False
            raise
        return any(item["name"] == kind.plural for item in found["resources"])

    async def _request(
        self,
        method: str,
        kind: Kind,
        path: str,
        query: dict[str, str],
        body: Manifest | None = None,
        patch_type: str = "application/apply-patch+yaml",
    ) -> Manifest:
        content_type = patch_type if method == "PATCH" else "application/json"
        sent = {name: value for name, value in query.items() if value}
        seconds = REQUEST_SECONDS if method == "GET" else min(REQUEST_SECONDS, self._fence())
        url = f"{self._connection.server}{path}" + (f"?{urlencode(sent)}" if sent else "")
        async with self._connection.session.request(
            method,
            URL(url, encoded=True),
            headers={"Accept": "application/json", "Content-Type": content_type},
            data=None if body is None else json.dumps(body),
            timeout=aiohttp.ClientTimeout(total=seconds),
            allow_redirects=False,
        ) as response:
            raw = await response.read()
        API_REQUESTS.labels(verb=method, kind=kind.kind, code=response.status).inc()
        if not 200 <= response.status < 300:
            text = raw.decode(errors="replace")
            raise ApiException(response.status, response.reason or "", text)
        answer: dict[str, Any] = json.loads(raw)
        return answer


def message_of(error: ApiException) -> str:
    """The API server's own words, else the HTTP reason."""
    try:
        said = json.loads(error.body)
    except ValueError:
        return error.reason
    return str(said.get("message") or error.reason) if isinstance(said, dict) else str(said)
