"""The builder: commands, their progress and failures, and the flags that both builders share."""

from __future__ import annotations

import json
import sys
import tarfile
from pathlib import Path

import pytest

import builder


@pytest.fixture(autouse=True)
def cache_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LLAMA_OPERATOR_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Puts a docker on an otherwise empty PATH; returns the file with a line per call."""
    log = tmp_path / "calls"
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(f'#!/bin/sh\necho "$*" >> {log}\n')
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(docker.parent))
    return log


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_lines_are_reported_as_they_come(cache_root: Path) -> None:
    lines: list[str] = []
    builder.run(python("import sys; print('one'); sys.stderr.write('two')"), lines.append)
    assert sorted(lines) == ["one", "two"]
    assert list((cache_root / "logs").iterdir()) == []


def test_a_failure_says_what_was_said_last_and_where_the_rest_is(cache_root: Path) -> None:
    code = "[print(f'line {n}') for n in range(100)]; raise SystemExit(3)"
    with pytest.raises(builder.CommandFailed) as failure:
        builder.run(python(code), lambda line: None)
    (log,) = (cache_root / "logs").iterdir()
    assert "line 99\n" in str(failure.value)
    assert "line 5\n" not in str(failure.value)
    assert f"failed with 3; all it said is in {log}." in str(failure.value)
    assert "line 5\n" in log.read_text()


def test_a_command_that_hangs_does_not_succeed() -> None:
    assert builder.succeeds(python("pass"))
    assert not builder.succeeds(python("raise SystemExit(1)"))
    assert not builder.succeeds(python("import time; time.sleep(600)"), seconds=0.2)


def test_without_a_builder_the_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match="lacks buildah"):
        builder.find(lambda line: None)


def test_the_ca_bundle_is_a_secret_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builder, "CA_BUNDLE", tmp_path / "bundle")
    assert builder.build_flags({"BASE": "debian"}) == ["--build-arg=BASE=debian"]
    (tmp_path / "bundle").touch()
    assert f"--secret=id=ca-certificates,src={tmp_path / 'bundle'}" in builder.build_flags({})


def test_docker_builds_and_saves_where_there_is_no_buildah(calls: Path, tmp_path: Path) -> None:
    docker = builder.find(lambda line: None)
    docker.build(tmp_path, ["--target=runtime", "--tag=r:1"], {"BASE": "debian"})
    docker.build(tmp_path, ["--target=libllama", "--output=type=local,dest=out"], {})
    docker.export("r:1", tmp_path / "r.tar")
    _, image, libraries, save = calls.read_text().splitlines()
    assert image.startswith("buildx build")
    assert "--load" in image
    assert image.endswith(f"--target=runtime --tag=r:1 {tmp_path}")
    assert "--load" not in libraries
    assert save == f"save --output {tmp_path / 'r.tar'} r:1"


def test_buildah_stores_exports_and_forgets_images(tmp_path: Path) -> None:
    buildah = builder.find(lambda line: None)
    (tmp_path / "Dockerfile").write_text("FROM scratch\nARG X\nLABEL x=$X\nCOPY Dockerfile /\n")
    for tag in ("a:1", "a:2", "b:1"):
        buildah.build(tmp_path, [f"--tag=docker.io/library/{tag}"], {"X": tag})
    buildah.tidy("docker.io/library/a:", {"docker.io/library/a:2"})
    stored = {tag for tag in ("a:1", "a:2", "b:1") if buildah.has(f"docker.io/library/{tag}")}
    assert stored == {"a:2", "b:1"}
    archive = tmp_path / "a.tar"
    buildah.export("docker.io/library/a:2", archive)
    with tarfile.open(archive) as tar:
        manifest = tar.extractfile("manifest.json")
        assert manifest is not None
        (image,) = json.load(manifest)
    assert image["RepoTags"] == ["docker.io/library/a:2"]
