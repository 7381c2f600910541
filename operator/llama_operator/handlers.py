"""What kopf is told to watch, and how its events reach the controller.

Only `on.event` is used: it writes nothing to the objects, neither annotations nor finalizers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
IDLE_SECONDS = 0.5


class Backoffs:
    """Waits between tries of a watch that is refused: 1 s, 2 s, 4 s … 30 s, for ever.

    kopf ends the process after its last one. It would begin again where it stopped, but pods
    that wait for their next step would wait for a restart, too. It logs each refusal.
    """

    longest = 30.0

    def __iter__(self) -> Iterator[float]:
        wait = 1.0
        while True:
            yield min(wait, self.longest)
            wait = min(wait * 2, self.longest)


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
    settings.networking.error_backoffs = Backoffs()
    # A worker keeps the last event of its object, as it came, until it has been idle for so long.
    settings.queueing.idle_timeout = IDLE_SECONDS
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

    async def log_in(**_: Any) -> kopf.AiohttpSession:
        return login(controller.freshness.heard)

    kopf.on.login(registry=registry)(log_in)
    kopf.on.cleanup(registry=registry)(close)
    return registry


def login(heard: Callable[[str], None]) -> kopf.AiohttpSession:
    """A session for the watches alone: kopf closes it. `heard` as in `Connection.open`."""
    connection = connect()
    return kopf.AiohttpSession(server=connection.server, aiohttp_session=connection.open(heard))


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
