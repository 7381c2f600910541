"""``llama-runtime``: docs/architecture.md lists its flags, exit codes and ports."""

from __future__ import annotations

import asyncio
import logging
import os
import sys

from llama_runtime import numa
from llama_runtime.logs import configure_logs
from llama_runtime.settings import Settings


def main() -> None:
    settings = Settings.from_arguments(sys.argv[1:])
    configure_logs(settings.log_level)
    # Before any thread: they inherit the affinity and the memory policy.
    numa.prepare(settings.numa_policy)
    code = asyncio.run(serve(settings))
    logging.shutdown()
    # A thread inside llama.cpp can't be ended from here, and must not hold up the exit.
    os._exit(code)


async def serve(settings: Settings) -> int:
    # Imported late: llama.cpp's library starts threads.
    from llama_runtime.engine import load_engine
    from llama_runtime.process import Process

    process = Process(settings, load_engine, lambda: numa.observe(settings.numa_policy))
    return await process.run()


if __name__ == "__main__":
    main()
