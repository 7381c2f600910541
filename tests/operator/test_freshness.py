"""Silence of a watch, and what it means."""

from __future__ import annotations

from llama_operator.freshness import DEAD_SECONDS, SUSPICIOUS_SECONDS, Freshness

PODS, SERVICES = "/api/v1/pods", "/api/v1/services"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def a_freshness() -> tuple[Freshness, Clock]:
    clock = Clock()
    return Freshness(clock, (PODS, SERVICES)), clock


def test_a_stream_at_rest_has_its_bookmarks() -> None:
    freshness, clock = a_freshness()
    for _ in range(20):
        clock.now += 60
        freshness.heard(PODS)
        freshness.heard(SERVICES)
        assert not freshness.suspicious()
        assert freshness.dead() is None
    assert freshness.silence() == 0


def test_one_silent_stream_is_listed_for_and_then_dead() -> None:
    freshness, clock = a_freshness()
    clock.now += SUSPICIOUS_SECONDS
    freshness.heard(PODS)
    assert freshness.suspicious()

    freshness.listed()
    assert not freshness.suspicious()
    clock.now += SUSPICIOUS_SECONDS / 2
    assert freshness.suspicious()
    assert freshness.dead() is None

    clock.now = 1000.0 + DEAD_SECONDS
    freshness.listed()
    freshness.heard(PODS)
    assert freshness.silence() == DEAD_SECONDS
    assert freshness.dead() == SERVICES

    freshness.heard(SERVICES)
    assert freshness.dead() is None


def test_an_api_server_that_is_away_makes_no_stream_dead() -> None:
    freshness, clock = a_freshness()
    clock.now += 10 * DEAD_SECONDS

    assert freshness.suspicious()
    assert freshness.dead() is None


def test_a_follower_that_begins_to_lead_starts_afresh() -> None:
    freshness, clock = a_freshness()
    clock.now += 10 * DEAD_SECONDS
    freshness.listed()

    freshness.begin()

    assert freshness.silence() == 0
    assert freshness.dead() is None


def test_other_paths_do_not_count() -> None:
    freshness, clock = a_freshness()
    clock.now += 10

    freshness.heard("/api")

    assert freshness.silence() == 10
