"""What kopf is told to watch, and how its events reach the controller.

Only `on.event` is used: it writes nothing to the objects, neither annotations nor finalizers.
"""

from __future__ import annotations

from typing import Any

import kopf

from llama_operator.api import GROUP, PLURAL, VERSION
from llama_operator.connection import connect
from llama_operator.controller import Controller
from llama_operator.kube import OWNED, WATCHED, Kind
from llama_operator.names import OWNED_SELECTOR, Manifest

SERVER_SECONDS = 300
CLIENT_SECONDS = 310
CONNECT_SECONDS = 10
REQUEST_SECONDS = 30


def build_settings() -> kopf.OperatorSettings:
    """Settings of kopf: watches that cannot go silent, server-side selection, no scanning.

    Without scanning kopf needs no rights on CRDs and namespaces.
    """
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.scanning.disabled = True
    settings.networking.request_timeout = REQUEST_SECONDS
    settings.networking.connect_timeout = CONNECT_SECONDS
    settings.watching.server_timeout = SERVER_SECONDS
    settings.watching.client_timeout = CLIENT_SECONDS
    settings.watching.connect_timeout = CONNECT_SECONDS
    for kind in OWNED.values():
        settings.watching.label_selectors[_selector(kind)] = OWNED_SELECTOR
    return settings


def build_registry(controller: Controller) -> kopf.OperatorRegistry:
    """The handlers of every watched kind."""
    registry = kopf.OperatorRegistry()
    for kind in WATCHED.values():
        _register(registry, controller, kind)

    async def close(**_: Any) -> None:
        controller.close()

    kopf.on.login(registry=registry)(login)
    kopf.on.cleanup(registry=registry)(close)
    return registry


async def login(**_: Any) -> kopf.AiohttpSession:
    """A session for the watches alone: kopf closes it."""
    connection = connect()
    return kopf.AiohttpSession(server=connection.server, aiohttp_session=connection.open())


def _register(registry: kopf.OperatorRegistry, controller: Controller, kind: Kind) -> None:
    async def notice(event: kopf.RawEvent, **_: Any) -> None:
        manifest = _manifest(kind, dict(event["object"]))
        if event["type"] == "DELETED":
            controller.gone(manifest)
        else:
            controller.changed(manifest, listed=event["type"] is None)

    kopf.on.event(*_selector(kind), registry=registry, id=f"notice-{kind.plural}")(notice)


def _selector(kind: Kind) -> tuple[str, str, str]:
    if kind.plural == PLURAL:
        return GROUP, VERSION, PLURAL
    return kind.group, kind.api_version.rpartition("/")[2], kind.plural


def _manifest(kind: Kind, body: dict[str, Any]) -> Manifest:
    """The object; those of a list come without apiVersion and kind."""
    return {**body, "apiVersion": kind.api_version, "kind": kind.kind}
