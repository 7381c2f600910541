from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from tests.bench import figures
from tests.bench.figures import Figure
from tests.bench.runtime.bench import Bench
from tests.bench.runtime.load import BenchError

program = importlib.import_module("tests.bench.runtime.__main__")
SPEED = Figure("speed", 2.0, "x", "higher", 3.0, "missed, and said so")


def works(bench: Bench) -> list[Figure]:
    bench.disturbances.append(0.25)
    return [SPEED]


def fails(bench: Bench) -> list[Figure]:
    raise BenchError("llama-server: the server answered 500.")


@pytest.fixture
def result(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(program, "REPOSITORY", tmp_path)
    monkeypatch.setattr(program, "RESULT", tmp_path / "build/runtime.json")
    monkeypatch.setattr(program, "SCENARIOS", {"fails": fails, "works": works})
    monkeypatch.setenv("LLAMA_TEST_MODEL", "model.gguf")
    return tmp_path / "build/runtime.json"


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    monkeypatch.setattr(sys, "argv", ["bench", "--quick", *arguments])
    with pytest.raises(SystemExit) as ended:
        program.main()
    return ended.value.code


def test_a_missed_target_is_a_result_and_no_failure(
    result: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--only", "works") == 0
    speed, disturbance = figures.read(result)
    assert speed == SPEED
    assert (disturbance.value, disturbance.unit) == (25.0, "%")
    assert disturbance.name.endswith("measuring works")
    assert "missed, and said so" in " ".join(capsys.readouterr().out.split())


def test_one_scenario_leaves_the_figures_of_the_others(
    result: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Figure("other", 1.0, "x", "higher", None, "")
    figures.write(result, [SPEED, other])
    faster = Figure("speed", 9.0, "x", "higher", 3.0, "")
    monkeypatch.setattr(program, "SCENARIOS", {"works": lambda bench: [faster]})
    assert run(monkeypatch, "--only", "works") == 0
    assert figures.read(result) == [faster, other]


def test_a_scenario_that_cannot_run_fails_the_bench_after_the_others(
    result: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch) == 1
    assert SPEED in figures.read(result)
    assert "the server answered 500" in " ".join(capsys.readouterr().out.split())


def test_without_a_model_it_says_what_to_run(result: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LLAMA_TEST_MODEL")
    assert run(monkeypatch) == "LLAMA_TEST_MODEL is not set: run make bench-runtime."
    assert not result.exists()
