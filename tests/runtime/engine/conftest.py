"""These tests import llama-cpp-python, which needs libllama at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.runtime.conftest import path_from_environment
from tests.runtime.engine.tiny_model import write_tiny_model

if TYPE_CHECKING:
    from llama_runtime.engine.context import Context
    from llama_runtime.engine.vocabulary import ModelVocabulary
    from tests.runtime.engine.driver import Drive, Driver

path_from_environment("LLAMA_CPP_LIB_PATH", "the folder of libllama.so")


@pytest.fixture(scope="session")
def tiny_model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("model") / "tiny.gguf")


@pytest.fixture
def drive(tiny_model_path: Path) -> Iterator[Drive]:
    """Makes drivers of the tiny model, and closes them."""
    from llama_runtime.engine.context import Context
    from tests.runtime.engine.driver import Driver, tiny_settings

    drivers: list[Driver] = []

    def make(context_class: type[Context] = Context, **settings: Any) -> Driver:
        drivers.append(Driver(tiny_settings(tiny_model_path, **settings), context_class))
        return drivers[-1]

    yield make
    for driver in drivers:
        driver.close()


@pytest.fixture(scope="module")
def vocabulary(libllama: Path, model_path: Path) -> Iterator[ModelVocabulary]:
    """The vocabulary of the real model, without its weights."""
    import llama_cpp

    from llama_runtime.engine.backend import load_backends
    from llama_runtime.engine.vocabulary import ModelVocabulary

    load_backends()
    parameters = llama_cpp.llama_model_default_params()
    parameters.vocab_only = True
    model = llama_cpp.llama_model_load_from_file(str(model_path).encode(), parameters)
    yield ModelVocabulary(model)
    llama_cpp.llama_model_free(model)
