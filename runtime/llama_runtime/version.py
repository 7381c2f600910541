"""The version of the distribution that this code came in."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def _version() -> str:
    try:
        return version("llama-operator")
    except PackageNotFoundError:
        return "0+source"  # run from a source tree


VERSION = _version()
