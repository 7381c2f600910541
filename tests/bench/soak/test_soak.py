"""What the soak makes of what it saw."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import httpx

from tests.bench.soak.__main__ import IMAGE_ENVIRONMENT, Soaked, figures_of
from tests.bench.soak.probes import PATHS, Probes
from tests.bench.soak.traffic import Traffic

ROOT = Path(__file__).parents[3]


def soaked(*, resident: list[float], cached: int = 8, **answers: int) -> Soaked:
    counted = Counter({(kind.replace("_", " "), status): 1 for kind, status in answers.items()})
    probes = Probes()
    probes.seconds = {path: [0.01] * 98 + [0.05, 0.3] for path in PATHS}
    sequences = {"running": 0, "cached": cached, "free": 0}
    status = {"kv": {"maxSequences": 8, "sequences": sequences}}
    traffic = Traffic(httpx.AsyncClient(verify=False), random.Random(1), counted)
    return Soaked("Unified", traffic, probes, resident, status)


def values(seen: Soaked) -> dict[str, tuple[float, bool | None]]:
    prefix = f"{seen.layout}: "
    return {one.name.removeprefix(prefix): (one.value, one.met) for one in figures_of(seen)}


def test_flat_memory_and_nothing_left_behind_are_good() -> None:
    found = values(soaked(resident=[300.0] * 10 + [400.0] * 30, chat=200, bad=400, too_much=400))
    assert found["memory at the end / after warm-up"] == (1.0, True)
    assert found["sequences leaked"] == (0, True)
    assert found["unexpected answers"] == (0, True)
    assert found["probes p99"] == (50.0, True)
    assert found["probes p100"] == (300.0, None)


def test_growth_leaks_and_failures_are_found() -> None:
    resident = [400.0 + sample for sample in range(100)]
    found = values(soaked(resident=resident, cached=7, chat=500, bad=200, schema=400))
    assert found["memory at the end / after warm-up"][1] is False
    assert found["sequences leaked"] == (1, False)
    assert found["unexpected answers"] == (3, False)


def test_the_soak_runs_with_the_image_s_environment() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert all(f"{name}={value}" in dockerfile for name, value in IMAGE_ENVIRONMENT.items())
