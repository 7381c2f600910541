"""The cache of what is slow to build: one folder, entries keyed by what went into them."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

IGNORED = {"__pycache__", ".DS_Store"}


def root() -> Path:
    """The cache's folder: LLAMA_OPERATOR_CACHE, else llama-operator in the user's cache."""
    chosen = os.environ.get("LLAMA_OPERATOR_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "llama-operator"


def digest(**inputs: str | Path) -> str:
    """Twelve hex digits that change with any input.

    A path stands for its content: a file's bytes, or the names and bytes of a folder's files.
    """
    total = hashlib.sha256()
    for name, value in sorted(inputs.items()):
        files = [(name, value.encode())] if isinstance(value, str) else list(_contents(value))
        for label, content in [(name, str(len(files)).encode()), *files]:
            for part in (label.encode(), content):
                total.update(len(part).to_bytes(8, "big"))
                total.update(part)
    return total.hexdigest()[:12]


def _contents(path: Path) -> Iterator[tuple[str, bytes]]:
    if path.is_file():
        yield "", path.read_bytes()
        return
    for file in sorted(path.rglob("*")):
        relative = file.relative_to(path)
        if file.is_file() and not IGNORED.intersection(relative.parts):
            yield str(relative), file.read_bytes()


def entry(kind: str, key: str, build: Callable[[Path], None], *, keep: int = 4) -> Path:
    """The folder ``kind/key``; built first when it isn't there.

    ``build`` fills an empty folder, which takes its place in one rename: an entry is whole or
    absent. Of several processes one builds and the others wait for it. Of the kind, the
    ``keep`` entries last used stay.
    """
    folder = root() / kind
    target = folder / key
    if not target.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        with lock(f"{kind}-{key}".replace("/", "-")):
            if not target.is_dir():
                partial = folder / f".{key}"
                shutil.rmtree(partial, ignore_errors=True)
                partial.mkdir()
                build(partial)
                partial.rename(target)
    os.utime(target)
    prune(kind, keep)
    return target


def holds(kind: str, key: str) -> bool:
    """Whether the entry is there."""
    return (root() / kind / key).is_dir()


def prune(kind: str, keep: int) -> None:
    """Remove the entries of a kind but the ``keep`` last used."""
    entries = [path for path in (root() / kind).iterdir() if not path.name.startswith(".")]
    for path in sorted(entries, key=_last_use, reverse=True)[keep:]:
        shutil.rmtree(path, ignore_errors=True)


def _last_use(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # another process pruned it
        return 0.0


@contextmanager
def lock(name: str) -> Iterator[None]:
    """Hold an exclusive lock among processes; it ends with the process that holds it."""
    folder = root() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"Waiting for another run that builds {name}.", file=sys.stderr, flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)
