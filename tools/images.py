"""Build the images llama-operator and llama-runtime, or libllama alone for this machine's tests.

What comes out is kept in the cache (LLAMA_OPERATOR_CACHE, else ~/.cache/llama-operator), keyed
by what went in: a second run with the same inputs builds nothing. Progress goes to standard
error, the result to standard output.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

from rich.console import Console
from rich.markup import escape

import base
import cache
from builder import Builder, CommandFailed, find, run
from steps import Steps

REPOSITORY = Path(__file__).resolve().parent.parent
CODE = {"operator": "operator/llama_operator", "runtime": "runtime/llama_runtime"}
TEST_VARIANTS = "x64 haswell icelake"
"""ggml's CPU variants for this project's own clusters; a release has all of them."""
REGISTRY = "docker.io/library/"
"""What every cluster and builder reads into a reference that names no registry."""
LIBRARIES = Path("opt/llama/lib")
"""The folder of the libraries in the target libllama."""


@dataclass(frozen=True)
class Image:
    """A built image: its reference, and the docker-archive that any cluster can load."""

    reference: str
    archive: Path


def default_argument(dockerfile: str, name: str) -> str:
    """The default that a Dockerfile gives a build argument."""
    found = re.search(rf"^ARG {name}=(\S+)$", dockerfile, re.MULTILINE)
    if found is None:
        raise ValueError(f"The Dockerfile has no default for {name}.")
    return found[1]


def recipe(dockerfile: str, target: str) -> str:
    """The instructions that make a target: its stage and all that it builds upon or copies from."""
    instructions = re.sub(r"(?m)^(#.*)?\n", "", dockerfile)
    stages = dict(re.findall(r"(?ms)^(?=FROM \S+ AS (\S+)$)(.*?)(?=^FROM |\Z)", instructions))
    wanted, found = [target], dict[str, str]()
    while wanted:
        name = wanted.pop()
        if name in stages and name not in found:
            found[name] = stages[name]
            wanted += re.findall(r"(?m)(?:^FROM |--from=)(\S+)", stages[name])
    return "".join(text for _, text in sorted(found.items()))


def pin(requirements: str, package: str) -> str:
    """The lines of a lock that pin one package: its version and hashes."""
    found = re.search(rf"^{re.escape(package)}==(.*\\\n)*.*\n", requirements, re.MULTILINE)
    if found is None:
        raise ValueError(f"The lock has no pin of {package}.")
    return found[0]


@dataclass
class Project:
    """The images of this checkout.

    ``base_image`` is an image's reference, or None: the Dockerfile's, or debootstrap's where no
    registry has that. ``variants`` is ``all`` or a list of ggml's CPU variants.
    """

    base_image: str | None = None
    variants: str = TEST_VARIANTS
    steps: Steps = field(default_factory=lambda: Steps(0, Console(quiet=True)))

    def image(self, name: str) -> Image:
        """The image ``operator`` or ``runtime``; built when the cache lacks it."""
        reference = f"llama-{name}:{self.image_key(name)}"

        def make(folder: Path) -> None:
            with self.step(f"Build {reference}", "8 min once, then 20 s"):
                self.build(f"--target={name}", f"--tag={REGISTRY}{reference}")
                if self.image_key(name) not in reference:
                    raise CommandFailed(
                        f"Sources of {reference} changed under the build: repeat it."
                    )
                self.builder.export(f"{REGISTRY}{reference}", folder / f"llama-{name}.tar")
                self.builder.tidy(f"{REGISTRY}llama-{name}:", {f"{REGISTRY}{reference}"})

        folder = cache.entry(f"images/{name}", self.image_key(name), make)
        return Image(reference, folder / f"llama-{name}.tar")

    def libllama(self) -> Path:
        """The folder with libllama and ggml: the same files as in the runtime image."""

        def make(folder: Path) -> None:
            with self.step("Build libllama", "8 min once, then 5 s"):
                self.build("--target=libllama", f"--output=type=local,dest={folder / 'out'}")
            shutil.move(folder / "out" / LIBRARIES, folder / "lib")
            shutil.rmtree(folder / "out")

        return cache.entry("libllama", self.libllama_key, make) / "lib"

    def image_key(self, name: str) -> str:
        """Changes with whatever changes the image."""
        return cache.digest(
            base=self.base_reference,
            variants=self.variants if name == "runtime" else "",
            version=self.version,
            code=REPOSITORY / CODE[name],
            recipe=recipe(self.dockerfile, name),
            requirements=REPOSITORY / "requirements" / f"{name}.txt",
            build_requirements=REPOSITORY / "requirements/build.txt",
        )

    @cached_property
    def libllama_key(self) -> str:
        """Changes with whatever changes libllama."""
        return cache.digest(
            base=self.base_reference,
            variants=self.variants,
            recipe=recipe(self.dockerfile, "libllama"),
            source=pin((REPOSITORY / "requirements/runtime.txt").read_text(), "llama-cpp-python"),
        )

    @cached_property
    def version(self) -> str:
        """The project's version."""
        document = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
        return str(document["project"]["version"])

    @cached_property
    def builder(self) -> Builder:
        return find(self.report)

    @cached_property
    def published_base(self) -> str:
        """The base that the Dockerfile names."""
        return default_argument(self.dockerfile, "BASE")

    @property
    def dockerfile(self) -> str:
        return (REPOSITORY / "Dockerfile").read_text()

    @cached_property
    def debian(self) -> base.Debian | None:
        """The base to make by debootstrap; None when an image serves as it is."""
        published = self.published_base
        if self.base_image or self.builder.has(published) or self.builder.reaches(published):
            return None
        return base.of_this_machine()

    @property
    def base_reference(self) -> str:
        if self.debian is not None:
            return f"localhost/llama-base:{self.debian.key}"
        return self.base_image or self.published_base

    def build(self, *destination: str) -> None:
        """Build a target of the Dockerfile; one build at a time, for they share their layers."""
        with cache.lock("build"):
            self.provide_base()
            arguments = {
                "BASE": self.base_reference,
                "CPU_VARIANTS": self.variants,
                "VERSION": self.version,
            }
            self.builder.build(REPOSITORY, list(destination), arguments)

    def provide_base(self) -> None:
        """Store the base made by debootstrap, unless another serves or it is stored already.

        It comes from its archive even when the storage was lost: what was built on it stays valid
        only for the very same image.
        """
        debian, reference = self.debian, self.base_reference
        if debian is None or self.builder.has(reference):
            return

        def make(folder: Path) -> None:
            (folder / "context").mkdir()
            base.make(debian, folder / "context", partial(run, report=self.report))
            self.builder.build(folder / "context", [f"--tag={reference}"], {})
            self.builder.export(reference, folder / "base.tar")
            shutil.rmtree(folder / "context")

        archive = cache.entry("base", debian.key, make, keep=2) / "base.tar"
        if not self.builder.has(reference):
            self.builder.load(archive)

    @contextmanager
    def step(self, title: str, usually: str) -> Iterator[None]:
        self.steps.total = max(self.steps.total, self.steps.number + 1)
        with self.steps.step(title, usually):
            yield

    def report(self, line: str) -> None:
        """Show a line of a running command as the detail of the step."""
        self.steps.detail = escape(line.strip()) or self.steps.detail


def main() -> None:
    """Build what the command line asks for and print where it is."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=["images", "libllama"], default="images")
    parser.add_argument("--json", action="store_true", help="print references and archives as JSON")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.add_argument(
        "--base",
        default=os.environ.get("BASE"),
        help="any Debian image with Python 3.11 or newer (default: $BASE, else the Dockerfile's, "
        "or one made by debootstrap where no registry is reachable)",
    )
    parser.add_argument(
        "--cpu-variants",
        default=os.environ.get("CPU_VARIANTS", TEST_VARIANTS),
        help=f"all, or a list with x64 in it (default: $CPU_VARIANTS, else {TEST_VARIANTS})",
    )
    arguments = parser.parse_args()
    variants = " ".join(arguments.cpu_variants.replace(",", " ").split())
    console = Console(stderr=True, quiet=arguments.quiet, highlight=False, soft_wrap=True)
    project = Project(arguments.base, variants, Steps(0, console))
    try:
        if arguments.what == "libllama":
            print(project.libllama())
            return
        project.steps.total = sum(
            not cache.holds(f"images/{name}", project.image_key(name)) for name in CODE
        )
        images = {name: project.image(name) for name in CODE}
    except CommandFailed as failure:
        sys.exit(str(failure))
    if arguments.json:
        print(json.dumps({name: {"reference": image.reference, "archive": str(image.archive)}
                          for name, image in images.items()}, indent=2))  # fmt: skip
    else:
        for image in images.values():
            print(f"{image.reference}  {image.archive}")


if __name__ == "__main__":
    main()
