"""What builds images: buildah, or a Docker engine where there is no buildah."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import cache
import programs

CA_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
REGISTRY_SECONDS = 15
"""How long a registry may take to answer before it counts as unreachable."""
STORED_IMAGES = 400
"""More stored images than this, intermediate ones included, and the unnamed ones go."""

Report = Callable[[str], None]
"""Takes each line of a running command."""


class Builder(Protocol):
    """Builds targets of a Dockerfile."""

    def has(self, reference: str) -> bool:
        """Whether the image is stored here."""

    def reaches(self, reference: str) -> bool:
        """Whether a registry answers for the image."""

    def build(self, context: Path, destination: list[str], arguments: Mapping[str, str]) -> None:
        """Build a context with build arguments; ``destination`` is flags (target, tag, output)."""

    def export(self, reference: str, archive: Path) -> None:
        """Write a stored image as a docker-archive that carries ``reference``."""

    def load(self, archive: Path) -> None:
        """Store the image of a docker-archive under the reference that it carries."""

    def tidy(self, prefix: str, keep: set[str]) -> None:
        """Forget the images whose references begin with ``prefix`` but those in ``keep``.

        What is left without a name serves later builds, until there is too much of it.
        """


class CommandFailed(Exception):
    """A command ended with an error; the message has its last lines."""


def run(command: list[str], report: Report) -> None:
    """Run a command, give each line of its output to ``report``.

    The whole output is kept in the cache's logs. Raises CommandFailed.
    """
    log = cache.root() / "logs" / f"{Path(command[0]).name}-{os.getpid()}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    tail: list[str] = []
    with (
        log.open("a", buffering=1) as file,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            file.write(line)
            tail = [*tail[-19:], line.rstrip()]
            report(line.rstrip())
    if process.returncode != 0:
        lines = "\n".join(tail)
        raise CommandFailed(
            f"{lines}\n\n{Path(command[0]).name} failed with {process.returncode}; "
            f"all it said is in {log}."
        )
    log.unlink()


def succeeds(command: list[str], seconds: float | None = None) -> bool:
    """Whether a command ends well, in time."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def find(report: Report) -> Builder:
    """The builder of this machine; exits with a sentence when there is none."""
    if shutil.which("buildah"):
        return Buildah(report)
    if shutil.which("docker") and succeeds(["docker", "version"], REGISTRY_SECONDS):
        return Docker(report)
    if (problem := programs.need(report, "buildah")) is not None:
        sys.exit(f"Neither buildah nor a running Docker engine is here. {problem}")
    return Buildah(report)


def build_flags(arguments: Mapping[str, str]) -> list[str]:
    """The flags of a build that buildah and docker share."""
    flags = [f"--build-arg={name}={value}" for name, value in arguments.items()]
    if CA_BUNDLE.is_file():
        flags.append(f"--secret=id=ca-certificates,src={CA_BUNDLE}")
    return flags


class Buildah:
    """buildah with its storage in the cache and no need of a container runtime."""

    def __init__(self, report: Report) -> None:
        self.report = report
        for driver in ("overlay", "vfs"):
            self.storage = cache.root() / "storage" / driver
            self.command = ["buildah", "--storage-driver", driver, "--root", str(self.storage),
                            "--runroot", str(self.storage / "run")]  # fmt: skip
            if succeeds([*self.command, "images", "--quiet"]):
                return
        sys.exit("buildah works with neither the overlay nor the vfs driver: try `buildah info`.")

    def has(self, reference: str) -> bool:
        return succeeds([*self.command, "inspect", "--type", "image", reference])

    def reaches(self, reference: str) -> bool:
        return succeeds([*self.command, "manifest", "inspect", reference], REGISTRY_SECONDS)

    def build(self, context: Path, destination: list[str], arguments: Mapping[str, str]) -> None:
        run([*self.command, "build", "--isolation=chroot", "--layers", *build_flags(arguments),
             *destination, str(context)], self.report)  # fmt: skip

    def export(self, reference: str, archive: Path) -> None:
        run([*self.command, "push", "--quiet", reference, f"docker-archive:{archive}:{reference}"],
            self.report)  # fmt: skip

    def load(self, archive: Path) -> None:
        run([*self.command, "pull", "--quiet", f"docker-archive:{archive}"], self.report)

    def tidy(self, prefix: str, keep: set[str]) -> None:
        listed = subprocess.run(
            [*self.command, "images", "--format", "{{.Name}}:{{.Tag}}"],
            check=True, capture_output=True, text=True,
        ).stdout.split()  # fmt: skip
        for reference in {name for name in listed if name.startswith(prefix)} - keep:
            succeeds([*self.command, "rmi", reference])
        if len(list((self.storage / f"{self.storage.name}-images").iterdir())) > STORED_IMAGES:
            succeeds([*self.command, "rmi", "--prune", "--force"])


class Docker:
    """A Docker engine with BuildKit."""

    def __init__(self, report: Report) -> None:
        self.report = report

    def has(self, reference: str) -> bool:
        return succeeds(["docker", "image", "inspect", reference])

    def reaches(self, reference: str) -> bool:
        return succeeds(["docker", "manifest", "inspect", reference], REGISTRY_SECONDS)

    def build(self, context: Path, destination: list[str], arguments: Mapping[str, str]) -> None:
        run(["docker", "buildx", "build", "--progress=plain", *build_flags(arguments),
             *([] if any(flag.startswith("--output") for flag in destination) else ["--load"]),
             *destination, str(context)], self.report)  # fmt: skip

    def export(self, reference: str, archive: Path) -> None:
        run(["docker", "save", "--output", str(archive), reference], self.report)

    def load(self, archive: Path) -> None:
        run(["docker", "load", "--quiet", "--input", str(archive)], self.report)

    def tidy(self, prefix: str, keep: set[str]) -> None:
        """Docker's own garbage collection does that."""
