"""Work that may take long or never end, without keeping the process from ending."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


async def in_daemon_thread(work: Callable[[], Result], name: str) -> Result:
    """The result of ``work``. Unlike asyncio.to_thread's, its thread holds up no exit."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()

    def tell(set_outcome: Callable[[], None]) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(lambda: None if future.done() else set_outcome())

    def run() -> None:
        try:
            result = work()
        except BaseException as error:
            failure = error
            tell(lambda: future.set_exception(failure))
        else:
            tell(lambda: future.set_result(result))

    threading.Thread(target=run, name=name, daemon=True).start()
    return await future
