"""The health that Argo CD computes with the Lua that users paste into its settings."""

from __future__ import annotations

from functools import cache
from typing import Any

# Argo CD runs gopher-lua, which is Lua 5.1.
from lupa import lua51  # type: ignore[import-untyped]

from tests.cluster_fixtures import REPOSITORY

HEALTH_CHECK = REPOSITORY / "docs/examples/argocd-health.lua"
KNOWN = {"Healthy", "Progressing", "Degraded", "Suspended"}
"""What Argo CD takes; anything else is an error there."""


def health(manifest: dict[str, Any]) -> tuple[str, str]:
    """Health and message of an object, as plain JSON."""
    runtime, check = _check()
    answer = check(runtime.table_from(manifest, recursive=True))
    assert answer["status"] in KNOWN
    assert isinstance(answer["message"], str)
    return answer["status"], answer["message"]


@cache
def _check() -> tuple[Any, Any]:
    runtime = lua51.LuaRuntime(unpack_returned_tuples=True)
    # As in Argo CD, there is no library that reaches outside.
    for name in ("os", "io", "package", "require", "python", "debug"):
        runtime.globals()[name] = None
    text = HEALTH_CHECK.read_text()
    return runtime, runtime.eval(f"function(given)\n_G.obj = given\n{text}\nend")
