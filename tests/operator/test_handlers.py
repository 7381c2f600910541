from __future__ import annotations

from typing import Any

import kopf
import pytest

from llama_operator.controller import Controller
from llama_operator.handlers import build_registry, build_settings, login


def handlers(registry: kopf.OperatorRegistry, part: str) -> list[Any]:
    return list(getattr(registry, part).get_all_handlers())


@pytest.fixture
def registry() -> kopf.OperatorRegistry:
    return build_registry(Controller.__new__(Controller))


def test_only_handlers_that_write_nothing_are_used(registry: kopf.OperatorRegistry) -> None:
    """`create`, `update`, `resume` and timers write annotations, daemons add finalizers."""
    assert len(handlers(registry, "_watching")) == 4
    assert handlers(registry, "_indexing") == []
    assert handlers(registry, "_changing") == []
    assert handlers(registry, "_spawning") == []


def test_the_watches_cannot_go_silent() -> None:
    settings = build_settings()

    assert settings.watching.server_timeout
    assert settings.watching.client_timeout
    assert settings.watching.inactivity_timeout
    assert settings.networking.request_timeout
    assert settings.posting.enabled is False
    assert settings.scanning.disabled is True
    assert settings.peering.standalone is True


@pytest.mark.parametrize(
    ("host", "server"),
    [("10.0.0.1", "https://10.0.0.1:6443"), ("fd00::1", "https://[fd00::1]:6443")],
)
def test_in_a_pod_the_api_server_is_found_without_dns(
    monkeypatch: pytest.MonkeyPatch, host: str, server: str
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    monkeypatch.setattr(
        kopf,
        "login_with_service_account",
        lambda **_: kopf.ConnectionInfo(server="https://kubernetes.default.svc", token="t"),
    )
    connection = login(settings=build_settings())
    assert connection is not None
    assert (connection.server, connection.token) == (server, "t")
