"""The operator on a control plane of its own, where everything that can fail does."""
