"""What four polite clients notice of one that floods, in steps that cost what they compute."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from llama_runtime.engine import fairness
from llama_runtime.engine.stream import Request
from llama_runtime.generation import Client
from tests.bench.figures import percentile
from tests.runtime.engine.driver import Drive, Driver, prompt

# SmolLM2-135M in Q4_0 on two CPUs, in seconds: a step, a prompt token, a generated token.
STEP, PROMPT_TOKEN, GENERATED_TOKEN = 0.005, 1 / 800, 1 / 220
THINK = 0.5
FLOOD_STARTS = 0.6
POLITE_PROMPT, FLOOD_PROMPT = 45, 1000
FLOOD: Client = ("flood", "")


@dataclass
class Polite:
    """Asks again half a second after its answer."""

    client: Client
    asks_at: float
    left: int = 5
    request: Request | None = None
    asked_at: float = 0.0
    waits: list[float] = field(default_factory=list)


def first_token_waits(driver: Driver, in_flight: int) -> list[float]:
    """Seconds until the first token of every polite request, with so many of the flood's."""
    scheduler = driver.scheduler
    people = [Polite((f"polite-{index}", ""), index * THINK / 4) for index in range(4)]
    flood: list[Request] = []
    now, seed = 0.0, 0
    while any(one.left or one.request for one in people):
        flood = [request for request in flood if driver.end(request) is None]
        while now > FLOOD_STARTS and len(flood) < in_flight:
            seed += 1
            flood.append(driver.submit(prompt(seed, FLOOD_PROMPT), 32, client=FLOOD))
        for one in people:
            if one.request is None and one.left and now >= one.asks_at:
                seed += 1
                one.request = driver.submit(prompt(seed, POLITE_PROMPT), 16, client=one.client)
                one.asked_at, one.left = one.asks_at, one.left - 1
        scheduler.counters.prompt_speed = 1 / PROMPT_TOKEN
        prompts, answers = scheduler.counters.prompt_tokens, scheduler.counters.predicted_tokens
        if scheduler.idle:
            now = min(one.asks_at for one in people if one.left)
            continue
        scheduler.step()
        now += (
            STEP
            + (scheduler.counters.prompt_tokens - prompts) * PROMPT_TOKEN
            + (scheduler.counters.predicted_tokens - answers) * GENERATED_TOKEN
        )
        for one in people:
            if one.request is None:
                continue
            if driver.tokens(one.request) and len(one.waits) < 5 - one.left:
                one.waits.append(now - one.asked_at)
            if driver.end(one.request):
                one.request, one.asks_at = None, now + THINK
    return [wait for one in people for wait in one.waits]


@pytest.mark.parametrize("in_flight", [8, 32])
def test_polite_clients_wait_at_most_three_times_as_long(
    drive: Drive, in_flight: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a slow machine a second of this clock takes many.
    monkeypatch.setattr(fairness, "_SEEN_SECONDS", 1e9)

    def p95(flood: int) -> float:
        driver = drive(
            kv_max_sequences=16,
            kv_context_per_sequence=1280,
            engine_batch_size=512,
            engine_micro_batch_size=512,
        )
        waits = first_token_waits(driver, flood)
        assert len(waits) == 20
        return percentile(waits, 95)

    assert p95(in_flight) <= 3 * p95(0)
