"""The engine: one llama.cpp context, one thread, many sequences."""

from llama_runtime.engine.engine import LlamaEngine, load_engine

__all__ = ["LlamaEngine", "load_engine"]
