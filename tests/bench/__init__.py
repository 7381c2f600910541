"""Benches: each prints a table and writes build/bench/NAME.json."""
