"""Restarts in a window or by hand: when, which pod, how, and what came of it. Pure."""
