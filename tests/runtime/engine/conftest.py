"""These tests import llama-cpp-python, which needs libllama at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.conftest import path_from_environment
from tests.runtime.engine.tiny_model import write_tiny_model

path_from_environment("LLAMA_CPP_LIB_PATH", "the folder of libllama.so")


@pytest.fixture(scope="session")
def tiny_model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("model") / "tiny.gguf")
