"""Restarts on the real API server: a window, by hand, a hold, a budget, and death at each step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.operator.integration.api import Api, eventually
from tests.operator.integration.deployment import Deployment
from tests.operator.integration.process import OperatorProcess
from tests.operator.integration.restarting_kubelet import RestartingKubelet

BY_HAND = "llama-operator.dev/restart"
HOLD = "llama-operator.dev/hold"
PROGRAM = (str(Path(__file__).with_name("scripted_operator.py")),)


class Scripted:
    """The operator of `scripted_operator`, and what the test tells it."""

    def __init__(self, process: OperatorProcess, api: Api, script: Path) -> None:
        self._process = process
        self._api = api
        self._script = script

    def start(self) -> None:
        self._process.start(
            resync_seconds=1, program=PROGRAM, environment={"SCRIPT": str(self._script)}
        )
        self._process.wait_ready()

    def set_clock(self, moment: datetime) -> None:
        ahead = (moment - datetime.now(UTC)).total_seconds()
        (self._script / "clock").write_text(str(ahead))

    def die_at(self, point: str) -> None:
        (self._script / "die").write_text(point)

    def wait_for_death(self) -> None:
        eventually(lambda: not self._process.running)

    def annotate(self, name: str, value: str | None) -> None:
        self._api.patch("llamadeployments", "chat", {"metadata": {"annotations": {name: value}}})

    @property
    def metrics(self) -> dict[str, float]:
        return self._process.metrics()


@pytest.fixture
def scripted(process: OperatorProcess, api: Api, tmp_path: Path) -> Iterator[Scripted]:
    if process.running:
        process.kill()
    scripted = Scripted(process, api, tmp_path)
    scripted.start()
    yield scripted
    if process.running:
        process.kill()


@pytest.fixture
def kubelet(scripted: Scripted, api: Api, tmp_path: Path) -> Iterator[RestartingKubelet]:
    with RestartingKubelet(api, tmp_path) as kubelet:
        yield kubelet


def run_of(chat: Deployment) -> dict[str, Any]:
    run: dict[str, Any] = chat.read().get("status", {}).get("restart", {}).get("run", {})
    return run


def completed(chat: Deployment, handled: str) -> Callable[[], bool]:
    def look() -> bool:
        restart = chat.read().get("status", {}).get("restart", {})
        return bool(restart.get("handled") == handled and restart["run"]["state"] == "Complete")

    return look


def test_a_window_on_the_night_when_clocks_go_forward(
    scripted: Scripted, kubelet: RestartingKubelet, api: Api, chat: Deployment
) -> None:
    march = datetime(datetime.now(UTC).year + 1, 3, 31, tzinfo=UTC)
    sunday = march - timedelta(days=(march.weekday() + 1) % 7)
    gap = sunday.replace(hour=1)  # 2:00 to 3:00 in Berlin
    scripted.set_clock(gap - timedelta(hours=12))
    chat.create(
        replicas=2,
        restart={"schedule": "30 2 * * *", "timeZone": "Europe/Berlin", "window": "30m"},
    )
    eventually(chat.settled)
    kubelet.watch_from_now()
    eventually(lambda: chat.status["restart"].get("nextTime") == f"{gap:%Y-%m-%dT%H:%M:%SZ}")
    assert chat.condition("RestartScheduled") == ("True", "Scheduled")

    scripted.set_clock(gap + timedelta(seconds=5))
    eventually(lambda: run_of(chat).get("state") == "Complete")

    assert kubelet.fewest_ready == 1
    assert [kubelet.count(name) for name in ("chat-0", "chat-1")] == [1, 1]
    following = gap + timedelta(hours=23, minutes=30)
    status = chat.status["restart"]
    assert status["nextTime"] == f"{following:%Y-%m-%dT%H:%M:%SZ}"
    eventually(lambda: chat.events().count("RestartMeasured") == 2)
    for row in chat.status["pods"]:
        last = row["lastRestart"]
        assert (last["method"], last["reason"]) == ("Container", "Scheduled")
        assert "It gained nothing" in last["message"]
        assert last["after"]["cpus"] == "0-1"
    assert "Fragmented" in chat.status["restart"]["message"]
    done = 'method="Container",reason="Scheduled",result="Done"'
    assert scripted.metrics[f"llama_operator_restarts_total{{{done}}}"] == 2
    assert chat.events().count("Restarted") == 2

    written = chat.written()
    scripted.set_clock(gap + timedelta(hours=3))
    eventually(lambda: scripted.metrics["llama_operator_resyncs_total"] >= 5)
    assert [kubelet.count(name) for name in ("chat-0", "chat-1")] == [1, 1]
    assert chat.written() == written


def test_by_hand_and_held(scripted: Scripted, kubelet: RestartingKubelet, chat: Deployment) -> None:
    chat.create(replicas=2)
    eventually(chat.settled)
    eventually(lambda: older_than_a_second(chat))
    kubelet.watch_from_now()
    scripted.annotate(HOLD, "true")
    generation = chat.read()["metadata"]["generation"]

    scripted.annotate(BY_HAND, "now")
    eventually(lambda: "held" in chat.status.get("restart", {}).get("message", ""))
    looks = scripted.metrics["llama_operator_resyncs_total"]
    eventually(lambda: scripted.metrics["llama_operator_resyncs_total"] >= looks + 3)
    assert [kubelet.count(name) for name in ("chat-0", "chat-1")] == [0, 0]

    scripted.annotate(HOLD, None)
    eventually(completed(chat, "now"))
    assert [kubelet.count(name) for name in ("chat-0", "chat-1")] == [1, 1]
    assert kubelet.fewest_ready == 1
    assert chat.read()["metadata"]["generation"] == generation
    assert chat.read()["metadata"]["annotations"] == {BY_HAND: "now"}
    eventually(
        lambda: not any("request" in str(pod["metadata"]["annotations"]) for pod in chat.pods())
    )


def test_a_value_that_it_is_created_with_asks_for_nothing(
    scripted: Scripted, kubelet: RestartingKubelet, chat: Deployment
) -> None:
    chat.create(annotations={BY_HAND: "from-git"}, replicas=2)
    eventually(chat.settled)
    assert chat.status["restart"] == {"handled": "from-git"}
    eventually(lambda: older_than_a_second(chat))
    kubelet.watch_from_now()

    scripted.annotate(BY_HAND, "now")
    eventually(completed(chat, "now"))
    assert [kubelet.count(name) for name in ("chat-0", "chat-1")] == [1, 1]


def older_than_a_second(chat: Deployment) -> bool:
    """A pod of the same second counts as made since the run began."""
    last = max(pod["metadata"]["creationTimestamp"] for pod in chat.pods())
    return bool(last < f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")


COMMON = ("before turn", "after turn", "before answer", "after answer")
POINTS = {
    "Container": (*COMMON, "before request", "after request", "before clearing", "after clearing"),
    "Pod": (*COMMON, "before eviction", "after eviction", "before pod", "after pod"),
}


@pytest.mark.parametrize("method", POINTS)
def test_killed_at_each_step_it_converges_and_restarts_no_pod_twice(
    scripted: Scripted, kubelet: RestartingKubelet, chat: Deployment, method: str
) -> None:
    chat.create(replicas=2, restart={"method": method})
    eventually(chat.settled)
    kubelet.watch_from_now()
    for count, point in enumerate(POINTS[method], start=1):
        eventually(lambda: older_than_a_second(chat))
        scripted.die_at(point)
        scripted.annotate(BY_HAND, point)
        scripted.wait_for_death()

        scripted.start()
        eventually(completed(chat, point))
        eventually(chat.settled)

        counts = [kubelet.count(name) for name in ("chat-0", "chat-1")]
        assert counts == [count, count], point
    assert kubelet.fewest_ready == 1


def test_a_disruption_budget_is_respected_and_the_refusal_told(
    scripted: Scripted, kubelet: RestartingKubelet, api: Api, chat: Deployment
) -> None:
    chat.create(replicas=2, restart={"method": "Pod"})
    eventually(chat.settled)
    eventually(lambda: older_than_a_second(chat))

    def disrupted(pods: dict[str, str] | None) -> None:
        """As the API server notes an eviction that the kubelet has yet to see."""
        body = {"status": {"disruptedPods": pods}}
        api.patch("poddisruptionbudgets", "chat", body, "status")

    def allowed() -> Any:
        budget = api.get("poddisruptionbudgets", "chat")
        assert budget is not None
        return budget.get("status", {}).get("disruptionsAllowed")

    disrupted({"chat-0": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"})
    eventually(lambda: allowed() == 0)
    scripted.annotate(BY_HAND, "now")

    eventually(lambda: "disruption budget" in chat.status.get("restart", {}).get("message", ""))
    assert chat.condition("Ready")[0] == "True"
    assert [kubelet.count(name) for name in ("chat-0", "chat-1")] == [0, 0]

    disrupted(None)
    eventually(completed(chat, "now"))
    assert [kubelet.count(name) for name in ("chat-0", "chat-1")] == [1, 1]
