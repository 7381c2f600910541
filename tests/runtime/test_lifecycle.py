"""The states of the process, and what the probes say in each."""

from __future__ import annotations

import pytest

from llama_runtime.lifecycle import STUCK_AFTER_SECONDS, Lifecycle, is_stuck
from llama_runtime.management import health, readiness, startup

SERVING = Lifecycle().loading().serving(0.4)


def test_a_load_shows_its_progress() -> None:
    lifecycle = Lifecycle().loading(0.25)
    assert (lifecycle.state, lifecycle.progress) == ("Loading", 0.25)
    assert "25%" in lifecycle.message
    assert not lifecycle.accepts


def test_a_loaded_model_is_served() -> None:
    assert (SERVING.state, SERVING.progress, SERVING.load_seconds) == ("Serving", 1.0, 0.4)
    assert SERVING.accepts


def test_a_failure_keeps_its_reason_until_the_next_load() -> None:
    failed = Lifecycle().loading().failed("ModelCorrupt", "It is no GGUF: replace it.")
    assert (failed.state, failed.reason) == ("Failed", "ModelCorrupt")
    assert not failed.accepts
    assert failed.loading().reason is None


def test_draining_takes_requests_until_it_refuses_them() -> None:
    draining = SERVING.draining()
    assert draining.accepts
    assert not draining.refuse().accepts
    assert not Lifecycle().loading().draining().accepts


@pytest.mark.parametrize("event", ["loading", "serving", "failed"])
def test_nothing_undoes_a_drain(event: str) -> None:
    draining = SERVING.draining()
    after = {
        "loading": draining.loading(0.5),
        "serving": draining.serving(1.0),
        "failed": draining.failed("ModelCorrupt", "x"),
    }
    assert after[event] == draining


def test_ready_is_only_who_serves() -> None:
    assert readiness(SERVING)[1] == 200
    failed = Lifecycle().loading().failed("ModelFileMissing", "There is no file: mount it.")
    for other in (Lifecycle(), Lifecycle().loading(), failed, SERVING.draining()):
        assert readiness(other)[1] == 503
    assert readiness(failed)[0] == "ModelFileMissing: There is no file: mount it.\n"


def test_started_is_who_served_once() -> None:
    assert startup(Lifecycle().loading(0.5))[1] == 503
    assert "50%" in startup(Lifecycle().loading(0.5))[0]
    assert startup(SERVING)[1] == 200
    assert startup(SERVING.draining())[1] == 200


def test_only_an_engine_that_stands_still_is_unhealthy() -> None:
    assert not is_stuck(None)
    assert not is_stuck(STUCK_AFTER_SECONDS)
    assert is_stuck(STUCK_AFTER_SECONDS + 1)
    assert health({"engine": None})[1] == 200
    assert health({"engine": {"heartbeatAgeSeconds": 1.0}})[1] == 200
    text, code = health({"engine": {"heartbeatAgeSeconds": 999.0}})
    assert code == 503
    assert "999 s" in text
