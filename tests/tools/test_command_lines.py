"""The command lines of the tools that build."""

from __future__ import annotations

import subprocess
import sys

import pytest

import images
import model


def call(tool: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(images.REPOSITORY / "tools" / tool), *arguments],
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("tool", ["images.py", "model.py"])
def test_help_says_what_the_tool_makes(tool: str) -> None:
    shown = call(tool, "--help")
    assert shown.returncode == 0
    assert "usage:" in shown.stdout
    assert "cache" in shown.stdout


def test_a_type_that_is_not_offered_is_refused() -> None:
    refused = call("model.py", "--type", "Q9_9")
    assert refused.returncode == 2
    assert "Q9_9" in refused.stderr


def test_the_source_of_the_model_is_installed() -> None:
    with model.source().open("rb") as file:
        assert file.read(4) == b"GGUF"
