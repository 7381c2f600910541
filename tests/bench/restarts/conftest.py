"""The bench runs on what the end-to-end tests run on."""

from tests.e2e.conftest import chat, model_folder, models, operator

__all__ = ["chat", "model_folder", "models", "operator"]
