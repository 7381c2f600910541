"""Programs that Debian has as packages: found, or installed where that can be done."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable


def need(report: Callable[[str], None], *programs: str) -> str | None:
    """Install the Debian packages of these names that are not on PATH.

    Returns None when all are there now, else a sentence that says what to do.
    """
    missing = [program for program in programs if shutil.which(program) is None]
    if not missing:
        return None
    names = " ".join(missing)
    if shutil.which("apt-get") is None:
        return f"This machine lacks {names}; use its package manager."
    if os.geteuid() != 0:
        return f"This machine lacks {names}: as root, apt-get install {names}."
    report(f"installing {names} with apt-get")
    install = ["install", "-y", "-q", "--no-install-recommends", *missing]
    # The lists may be missing or old: only then are they fetched, for that takes a while.
    if _apt_get(install) or (_apt_get(["update", "-q"]) and _apt_get(install)):
        return None
    return f"This machine lacks {names}, and apt-get could not install them: try it by hand."


def _apt_get(arguments: list[str]) -> bool:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        ["apt-get", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    return done.returncode == 0
