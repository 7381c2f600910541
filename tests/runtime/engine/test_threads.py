from __future__ import annotations

import os
from pathlib import Path

import pytest

from llama_runtime.engine.threads import available_cpus


@pytest.mark.parametrize(
    ("cpu_max", "cpus"),
    [(None, 8), ("max 100000\n", 8), ("250000 100000\n", 2), ("50000 100000\n", 1)],
)
def test_the_quota_narrows_the_affinity_mask(
    cpu_max: str | None, cpus: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    if cpu_max is not None:
        folder = tmp_path / "sys/fs/cgroup"
        folder.mkdir(parents=True)
        (folder / "cpu.max").write_text(cpu_max)
    assert available_cpus(tmp_path) == cpus
