"""The engine: one llama.cpp context, one thread, many sequences."""
