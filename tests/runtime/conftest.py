"""libllama, the test model, and engines that serve it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from llama_runtime.settings import Settings

if TYPE_CHECKING:
    from llama_runtime.engine import LlamaEngine

CLOSE_TIMEOUT = 120


class EngineFactory(Protocol):
    def __call__(self, **settings: Any) -> LlamaEngine: ...


def path_from_environment(variable: str, what: str) -> Path:
    value = os.environ.get(variable)
    if not value or not Path(value).exists():
        pytest.fail(
            f"{variable} must name {what}, but it is {value!r}: "
            "run `make test`, or set it by hand.",
            pytrace=False,
        )
    return Path(value)


@pytest.fixture(scope="session")
def libllama() -> Path:
    """The folder with libllama.so and ggml's backends."""
    return path_from_environment("LLAMA_CPP_LIB_PATH", "the folder of libllama.so")


@pytest.fixture(scope="session")
def model_path() -> Path:
    """SmolLM2-135M-Instruct, Q4_0."""
    return path_from_environment("LLAMA_TEST_MODEL", "the GGUF file that the tests use")


@pytest.fixture
def model_settings(model_path: Path) -> Callable[..., Settings]:
    """Settings for the test model: four small sequences unless said otherwise."""

    def make(**changes: Any) -> Settings:
        defaults: dict[str, Any] = {
            "model_path": model_path,
            "kv_max_sequences": 4,
            "kv_context_per_sequence": 512,
            # One thread waits for no other: ggml's threads spin, which is slow on a busy machine.
            "engine_threads": 1,
        }
        return Settings(**{**defaults, **changes})

    return make


@pytest.fixture
def engine(libllama: Path, model_settings: Callable[..., Settings]) -> Iterator[EngineFactory]:
    """Loads engines, ``engine(kv_max_sequences=16)``, and closes them in the end."""
    from llama_runtime.engine import load_engine

    loaded: list[LlamaEngine] = []

    def load(**settings: Any) -> LlamaEngine:
        loaded.append(load_engine(model_settings(**settings), lambda progress: None))
        return loaded[-1]

    yield load
    for one in loaded:
        assert one.close(CLOSE_TIMEOUT)
