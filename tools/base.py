"""The base image where no registry is reachable: Debian by debootstrap, as apt here is set up."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import cache
import programs

PACKAGES = ("ca-certificates", "python3")
DOCKERFILE = "FROM scratch\nADD rootfs.tar /\n"
UNNEEDED = (
    "usr/share/info",
    "usr/share/locale",
    "usr/share/man",
    "var/cache/apt",
    "var/lib/apt/lists",
)

Run = Callable[[list[str]], None]
"""Runs a command; raises when it fails."""


@dataclass(frozen=True)
class Debian:
    """A Debian release and where its packages come from.

    ``sources`` holds (URI, suite, component), as a line of sources.list does.
    """

    codename: str
    sources: tuple[tuple[str, str, str], ...]

    @property
    def mirror(self) -> str:
        return next(uri for uri, suite, _ in self.sources if suite == self.codename)

    @property
    def sources_list(self) -> str:
        return "".join(f"deb {' '.join(source)}\n" for source in self.sources)

    @property
    def key(self) -> str:
        return cache.digest(
            packages=" ".join(PACKAGES), sources=self.sources_list, recipe=Path(__file__)
        )


def of_this_machine() -> Debian:
    """The release that this machine runs, from the mirrors that its apt uses."""
    if shutil.which("apt-get") is None:
        sys.exit("No base image can be made: apt-get is missing. Name an image with BASE=….")
    if os.geteuid() != 0:
        sys.exit("debootstrap makes a base image only as root. Name an image with BASE=….")
    if problem := programs.need(lambda line: print(line, file=sys.stderr), "debootstrap"):
        sys.exit(f"No base image can be made. {problem} Or name an image with BASE=….")
    release = dict(
        line.strip().split("=", 1)
        for line in Path("/etc/os-release").read_text().splitlines()
        if "=" in line
    )
    codename = release.get("VERSION_CODENAME", "").strip('"')
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(SITE) $(RELEASE) $(COMPONENT)",
         "Created-By: Packages"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    return parse(codename, listed)


def parse(codename: str, index_targets: str) -> Debian:
    """The release's own sources among the lines of ``apt-get indextargets``."""
    suites = (codename, f"{codename}-updates", f"{codename}-security")
    sources = dict.fromkeys(
        (uri, suite, component)
        for uri, suite, component in map(str.split, index_targets.splitlines())
        if suite in suites
    )
    if not any(suite == codename for _, suite, _ in sources):
        sys.exit(
            f"apt has no source for the release {codename!r}, so no base image can be made. "
            "Name an image with BASE=…."
        )
    return Debian(codename, tuple(sources))


def make(debian: Debian, folder: Path, run: Run) -> None:
    """Write a build context to ``folder``: the root file system and the two lines that add it."""
    root = folder / "root"
    run(["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}",
         debian.codename, str(root), debian.mirror])  # fmt: skip
    (root / "etc/apt/sources.list").write_text(debian.sources_list)
    for path in UNNEEDED:
        shutil.rmtree(root / path, ignore_errors=True)
    for document in (root / "usr/share/doc").rglob("*"):
        if document.name != "copyright" and (document.is_symlink() or document.is_file()):
            document.unlink()
    run(["tar", "--create", "--file", str(folder / "rootfs.tar"), "--directory", str(root),
         "--numeric-owner", "--sort=name", "--exclude=./dev/*", "."])  # fmt: skip
    shutil.rmtree(root)
    (folder / "Dockerfile").write_text(DOCKERFILE)
