"""The OpenAI-compatible API on port 8080; docs/api.md says what it takes and refuses."""
