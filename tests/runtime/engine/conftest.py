"""These tests import llama-cpp-python, which needs libllama at once."""

from tests.runtime.conftest import path_from_environment

path_from_environment("LLAMA_CPP_LIB_PATH", "the folder of libllama.so")
