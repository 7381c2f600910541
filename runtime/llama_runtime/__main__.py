"""``llama-runtime``: docs/architecture.md lists its flags, exit codes and ports."""

from __future__ import annotations

import asyncio
import logging
import os
import sys

from llama_runtime import numa
from llama_runtime.logs import configure_logs
from llama_runtime.settings import Settings
from llama_runtime.termination import ExitCode, write_termination_log

SWITCH_SECONDS = 0.0005


def main() -> None:
    settings = read_settings(sys.argv[1:])
    configure_logs(settings.log_level)
    # A probe's thread takes the GIL some ten times; each may wait this long for the others.
    sys.setswitchinterval(SWITCH_SECONDS)
    # Before any thread: they inherit the affinity and the memory policy.
    numa.prepare(settings.numa_policy)
    code = asyncio.run(serve(settings))
    logging.shutdown()
    # A thread inside llama.cpp can't be ended from here, and must not hold up the exit.
    os._exit(code)


def read_settings(arguments: list[str]) -> Settings:
    """What is wrong with a flag goes to standard error, and that it is to the kubelet."""
    try:
        return Settings.from_arguments(arguments)
    except SystemExit as ending:
        if ending.code == ExitCode.BAD_FLAG:
            log_path = Settings.model_fields["termination_log"].default
            write_termination_log(log_path, "BadFlag", "A flag is wrong: the log says which.")
        raise


async def serve(settings: Settings) -> int:
    # Imported late: llama.cpp's library starts threads.
    from llama_runtime.engine import load_engine
    from llama_runtime.process import Process

    watch = numa.NumaWatch(lambda enough: numa.observe(settings.numa_policy, enough=enough))
    process = Process(settings, load_engine, watch.look)
    return await process.run()


if __name__ == "__main__":
    main()
