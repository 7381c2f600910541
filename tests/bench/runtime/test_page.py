from __future__ import annotations

from pathlib import Path

from tests.bench import report
from tests.bench.runtime import page
from tests.bench.runtime.scenarios import throughput
from tests.bench.runtime.scenarios.throughput import Result

RESULTS = {
    name: [Result({1: 50.0, 16: 100.0}, 300.0, 350.0), Result({1: 60.0, 16: 90.0}, 310.0, 340.0)]
    for name in ("llama-runtime", "llama-server", "llama_cpp.server")
}
FIGURES = throughput.speeds("Q4_0", RESULTS)


def test_speeds_are_found_again_among_the_figures() -> None:
    each = {"llama-runtime": 60.0, "llama-server": 60.0, "llama_cpp.server": 60.0}
    assert page.speeds_by_quantization(FIGURES) == {
        "Q4_0": {"1": each, "16": dict.fromkeys(each, 100.0)}
    }


def test_the_targets_of_the_speeds_are_ratios() -> None:
    targets = {figure.name: (figure.value, figure.met) for figure in FIGURES if figure.target}
    assert targets == {
        "Q4_0, 1 stream, over llama-server": (1.0, True),
        "Q4_0, 16 streams, over llama-server": (1.0, True),
        "Q4_0, 16 streams, over llama_cpp.server": (1.0, False),
    }


def test_the_page_gets_a_table_and_pictures(tmp_path: Path) -> None:
    (tmp_path / page.PAGE).write_text(f"before\n{report.BEGIN}\n{report.END}\nafter\n")
    page.write(tmp_path, FIGURES)
    written = (tmp_path / page.PAGE).read_text()
    assert written.startswith("before\n")
    assert written.endswith("\nafter\n")
    assert "| Q4_0, 16 streams: llama-server | 100 tok/s |" in written
    assert "(bench-runtime-q4_0.svg)" in written
    assert (tmp_path / "bench-runtime-q4_0.svg").read_text().startswith("<svg")
