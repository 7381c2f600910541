"""How the process ends and what it logs."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from llama_runtime import __main__ as main_module
from llama_runtime.logs import JSONFormatter
from llama_runtime.settings import Settings
from llama_runtime.termination import write_termination_log

RUNTIME = Path(__file__).parents[2] / "runtime"


def test_the_termination_log_is_json(tmp_path: Path) -> None:
    write_termination_log(tmp_path / "log", "Drained", "All requests were answered.")
    ending = json.loads((tmp_path / "log").read_text())
    assert ending == {"reason": "Drained", "message": "All requests were answered."}


def test_a_termination_log_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    write_termination_log(tmp_path / "nowhere" / "log", "Drained", "x")
    write_termination_log(Path("/dev/no-termination-log"), "Drained", "x")
    assert not Path("/dev/no-termination-log").exists()


def test_a_bad_flag_is_told_to_the_kubelet_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    monkeypatch.setattr(Settings.model_fields["termination_log"], "default", log)
    with pytest.raises(SystemExit) as ending:
        main_module.read_settings(["--bogus"])
    assert ending.value.code == 2
    assert json.loads(log.read_text())["reason"] == "BadFlag"
    assert "--bogus" in capsys.readouterr().err


def test_help_needs_no_model_and_no_library() -> None:
    command = [sys.executable, "-m", "llama_runtime", "--help"]
    done = subprocess.run(
        command, env={"PYTHONPATH": str(RUNTIME)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "--kv-max-sequences" in done.stdout


def test_a_log_line_is_one_json_object() -> None:
    record = logging.makeLogRecord(
        {"msg": "Two\nlines of %s", "args": ("text",), "levelname": "INFO", "name": "x", "path": 5}
    )
    try:
        raise ValueError("broken")
    except ValueError:
        record.exc_info = sys.exc_info()
    line = JSONFormatter().format(record)
    assert "\n" not in line
    event = json.loads(line)
    assert event["message"] == "Two\nlines of text"
    assert (event["level"], event["path"]) == ("info", 5)
    assert "ValueError: broken" in event["exception"]


def test_a_waiting_probe_gets_the_gil_soon(
    monkeypatch: pytest.MonkeyPatch, model_settings: Callable[..., Settings]
) -> None:
    """It takes the GIL some ten times: at Python's 5 ms each, a busy server is late."""
    before = sys.getswitchinterval()
    seen: list[float] = []

    def run(serving: Coroutine[None, None, int]) -> int:
        serving.close()
        seen.append(sys.getswitchinterval())
        return 0

    monkeypatch.setattr(main_module, "read_settings", lambda _: model_settings())
    monkeypatch.setattr("llama_runtime.__main__.asyncio.run", run)
    monkeypatch.setattr("llama_runtime.__main__.numa.prepare", lambda _: None)
    monkeypatch.setattr(main_module, "configure_logs", lambda _: None)
    monkeypatch.setattr("llama_runtime.__main__.logging.shutdown", lambda: None)
    monkeypatch.setattr("llama_runtime.__main__.os._exit", lambda _: None)
    try:
        main_module.main()
    finally:
        sys.setswitchinterval(before)
    assert seen[0] <= 0.001
