"""The runtime under mixed traffic for a long time: make soak."""
