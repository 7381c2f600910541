"""The runtime: serves one model from one llama.cpp context over an OpenAI-compatible API."""
