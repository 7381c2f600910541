from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import kopf
import pytest

from llama_operator.controller import Controller
from llama_operator.handlers import build_registry, build_settings


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


def test_a_watch_that_is_refused_is_tried_for_ever() -> None:
    backoffs = build_settings().networking.error_backoffs
    assert isinstance(backoffs, Iterable)
    waits = list(itertools.islice(backoffs, 100))

    assert waits[:6] == [1, 2, 4, 8, 16, 30]
    assert waits[-1] == 30
    assert list(itertools.islice(backoffs, 1)) == [1]


def test_the_watches_cannot_go_silent() -> None:
    settings = build_settings()

    assert settings.watching.server_timeout
    assert settings.watching.client_timeout
    assert settings.watching.inactivity_timeout
    assert settings.networking.request_timeout
    assert settings.posting.enabled is False
    assert settings.scanning.disabled is True
    assert settings.peering.standalone is True
