"""The images: when they are built again, from which base, and what the Dockerfile promises."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

import base
import images
from builder import CommandFailed

DOCKERFILE = (images.REPOSITORY / "Dockerfile").read_text()


class RecordingBuilder:
    """A builder that stores names and writes empty archives."""

    def __init__(self, *stored: str, reachable: bool = False) -> None:
        self.stored = set(stored)
        self.reachable = reachable
        self.built: list[tuple[Path, list[str], dict[str, str]]] = []

    def has(self, reference: str) -> bool:
        return reference in self.stored

    def reaches(self, reference: str) -> bool:
        return self.reachable

    def build(self, context: Path, destination: list[str], arguments: Mapping[str, str]) -> None:
        self.built.append((context, destination, dict(arguments)))
        for flag in destination:
            if flag.startswith("--tag="):
                self.stored.add(flag.removeprefix("--tag="))
            elif flag.startswith("--output="):
                folder = Path(flag.rpartition("dest=")[2]) / images.LIBRARIES
                folder.mkdir(parents=True)
                (folder / "libllama.so").touch()

    def export(self, reference: str, archive: Path) -> None:
        assert self.has(reference)
        archive.write_text(reference)

    def load(self, archive: Path) -> None:
        self.stored.add(archive.read_text())

    def tidy(self, prefix: str, keep: set[str]) -> None:
        self.stored -= {name for name in self.stored if name.startswith(prefix)} - keep


@pytest.fixture(autouse=True)
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of what the keys are made of, and an empty cache."""
    for name in ("Dockerfile", "pyproject.toml"):
        shutil.copy(images.REPOSITORY / name, tmp_path)
    shutil.copytree(images.REPOSITORY / "requirements", tmp_path / "requirements")
    for code in images.CODE.values():
        (tmp_path / code).mkdir(parents=True)
        (tmp_path / code / "__init__.py").touch()
    monkeypatch.setattr(images, "REPOSITORY", tmp_path)
    monkeypatch.setenv("LLAMA_OPERATOR_CACHE", str(tmp_path / "cache"))
    return tmp_path


def project(
    builder: RecordingBuilder | None = None,
    base_image: str | None = "debian",
    variants: str = images.TEST_VARIANTS,
) -> images.Project:
    made = images.Project(base_image, variants)
    made.__dict__["builder"] = builder or RecordingBuilder()
    return made


def keys(**arguments: str) -> dict[str, str]:
    made = project(**arguments)  # type: ignore[arg-type]
    return {
        "operator": made.image_key("operator"),
        "runtime": made.image_key("runtime"),
        "libllama": made.libllama_key,
    }


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name in before if before[name] != after[name]}


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


def test_code_changes_its_own_image_alone(checkout: Path) -> None:
    before = keys()
    append(checkout / "runtime/llama_runtime/__init__.py", "x = 1\n")
    assert changed(before, keys()) == {"runtime"}
    append(checkout / "operator/llama_operator/__init__.py", "x = 1\n")
    assert changed(before, keys()) == {"runtime", "operator"}


def test_another_pin_leaves_libllama_alone(checkout: Path) -> None:
    before = keys()
    lock = checkout / "requirements/runtime.txt"
    lock.write_text(lock.read_text().replace("pydantic==", "pydantic==9.", 1))
    assert changed(before, keys()) == {"runtime"}


def test_another_llama_cpp_changes_libllama_and_the_runtime(checkout: Path) -> None:
    before = keys()
    lock = checkout / "requirements/runtime.txt"
    pin = images.pin(lock.read_text(), "llama-cpp-python")
    lock.write_text(lock.read_text().replace(pin, pin.replace("sha256:", "sha256:0")))
    assert changed(before, keys()) == {"runtime", "libllama"}


def test_variants_change_what_holds_them() -> None:
    assert changed(keys(), keys(variants="all")) == {"runtime", "libllama"}


def test_base_and_version_change_the_images(checkout: Path) -> None:
    before = keys()
    assert changed(before, keys(base_image="other")) == set(before)
    pyproject = checkout / "pyproject.toml"
    pyproject.write_text(re.sub(r'(?m)^version = ".*"', 'version = "9.9"', pyproject.read_text()))
    assert changed(before, keys()) == {"operator", "runtime"}


@pytest.mark.parametrize(
    ("stage", "targets"),
    [
        ("build", {"operator", "runtime", "libllama"}),
        ("llama-compile", {"runtime", "libllama"}),
        ("runtime-packages", {"runtime"}),
        ("operator-code", {"operator"}),
    ],
)
def test_a_stage_changes_what_it_goes_into(checkout: Path, stage: str, targets: set[str]) -> None:
    before = keys()
    dockerfile = checkout / "Dockerfile"
    lines = dockerfile.read_text().splitlines(keepends=True)
    (start,) = (n for n, line in enumerate(lines) if line.endswith(f" AS {stage}\n"))
    dockerfile.write_text("".join([*lines[: start + 1], "# why\n", *lines[start + 1 :]]))
    assert changed(before, keys()) == set()
    dockerfile.write_text("".join([*lines[: start + 1], "ENV X=1\n", *lines[start + 1 :]]))
    assert changed(before, keys()) == targets


def test_an_image_is_built_once_and_exported() -> None:
    builder = RecordingBuilder()
    first = project(builder).image("runtime")
    assert first.archive.is_file()
    assert re.fullmatch(r"llama-runtime:[0-9a-f]{12}", first.reference)
    ((context, destination, arguments),) = builder.built
    assert context == images.REPOSITORY
    assert set(destination) == {"--target=runtime", f"--tag=docker.io/library/{first.reference}"}
    assert arguments == {
        "BASE": "debian",
        "CPU_VARIANTS": images.TEST_VARIANTS,
        "VERSION": project().version,
    }
    assert project(builder).image("runtime") == first
    assert len(builder.built) == 1


def test_a_change_under_the_build_is_not_cached(checkout: Path) -> None:
    class Editing(RecordingBuilder):
        def build(
            self, context: Path, destination: list[str], arguments: Mapping[str, str]
        ) -> None:
            super().build(context, destination, arguments)
            append(checkout / "runtime/llama_runtime/__init__.py", "x = 1\n")

    with pytest.raises(CommandFailed, match="changed"):
        project(Editing()).image("runtime")
    project(RecordingBuilder()).image("runtime")


def test_libllama_is_one_folder_of_libraries() -> None:
    builder = RecordingBuilder()
    libraries = project(builder).libllama()
    assert [path.name for path in libraries.iterdir()] == ["libllama.so"]
    assert [path.name for path in libraries.parent.iterdir()] == ["lib"]
    assert project(builder).libllama() == libraries
    assert len(builder.built) == 1


@pytest.mark.parametrize("stored", [True, False])
def test_the_published_base_is_used_where_it_can_be_had(stored: bool) -> None:
    published = images.default_argument(DOCKERFILE, "BASE")
    builder = RecordingBuilder(published) if stored else RecordingBuilder(reachable=True)
    assert project(builder, base_image=None).base_reference == published


def test_a_base_is_made_where_no_registry_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    debian = base.Debian("bookworm", (("http://mirror.example", "bookworm", "main"),))
    monkeypatch.setattr(base, "of_this_machine", lambda: debian)
    monkeypatch.setattr(base, "make", lambda debian, folder, run: None)
    builder = RecordingBuilder()
    made = project(builder, base_image=None)
    made.image("operator")
    made.image("runtime")
    assert [destination[0] for _, destination, _ in builder.built] == [
        f"--tag={made.base_reference}",
        "--target=operator",
        "--target=runtime",
    ]
    assert builder.built[1][2]["BASE"] == made.base_reference
    afresh = RecordingBuilder()
    project(afresh, base_image=None).libllama()
    assert made.base_reference in afresh.stored
    assert [destination[0] for _, destination, _ in afresh.built] == ["--target=libllama"]


def test_the_pin_is_one_package_with_its_hashes() -> None:
    lock = (
        "a==1 \\\n    --hash=sha256:1\n    # via x\nab==2 \\\n    --hash=2 \\\n    --hash=3\nb==1\n"
    )
    assert images.pin(lock, "ab") == "ab==2 \\\n    --hash=2 \\\n    --hash=3\n"
    assert images.pin(lock, "b") == "b==1\n"
    with pytest.raises(ValueError, match="no pin of c"):
        images.pin(lock, "c")


def stages() -> dict[str, str]:
    """The Dockerfile's stages by name, each with its instructions."""
    parts = re.split(r"^FROM \S+ AS (\S+)$", DOCKERFILE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_both_images_run_without_root_and_without_a_shell() -> None:
    for name in images.CODE:
        assert "\nUSER 65532:65532\n" in stages()[name]
        assert f'\nENTRYPOINT ["/opt/venv/bin/python", "-m", "llama_{name}"]\n' in stages()[name]
    assert list(stages())[-1] == "runtime"


def test_whatever_is_downloaded_by_pip_is_checked_by_its_hash() -> None:
    downloads = re.findall(r"-r /build/\w+\.txt", DOCKERFILE)
    assert downloads
    assert len(downloads) == DOCKERFILE.count("--require-hashes")


def test_the_variants_of_the_tests_hold_the_baseline() -> None:
    assert "x64" in images.TEST_VARIANTS.split()
