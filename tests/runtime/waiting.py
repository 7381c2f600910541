"""Waiting for what another task or process is about to do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], bool]) -> None:
    """Returns once ``condition`` holds; pytest's timeout ends a wait that never does."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.005)
