"""API keys from a mounted file, which may change while the server runs."""

from __future__ import annotations

import hashlib
import hmac
import logging
from dataclasses import dataclass
from pathlib import Path

from llama_runtime.api.errors import APIError

log = logging.getLogger(__name__)

Signature = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class _Read:
    """What a look at the file gave; replaced as a whole, as two threads look."""

    signature: Signature | None = None
    digests: tuple[bytes, ...] = ()
    problem: str | None = None


class ApiKeys:
    """Keys, one in each line of a file; without a file every request is let in.

    A Secret volume swaps a symbolic link when the Secret changes, so each check
    looks at the file behind it. A file that is missing or empty lets nobody in.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._last = _Read()

    def problem(self) -> str | None:
        """Why nobody is let in, or None."""
        return None if self._path is None else self._read(self._path).problem

    def name_of(self, authorization: str | None) -> str | None:
        """A name for the key in a header that was let in; None without keys."""
        if self._path is None:
            return None
        return _digest((authorization or "").partition(" ")[2]).hex()

    def check(self, authorization: str | None) -> None:
        """Raises APIError 401 unless the header carries one of the keys."""
        if self._path is None:
            return
        keys = self._read(self._path)
        if keys.problem is not None:
            raise APIError(401, keys.problem, code="invalid_api_key")
        scheme, _, key = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not key.strip():
            raise APIError(
                401,
                "This server needs an API key: send the header 'Authorization: Bearer KEY'.",
                code="invalid_api_key",
            )
        given = _digest(key)
        # No early end: how long this takes must not tell which key was nearly right.
        matches = [hmac.compare_digest(given, digest) for digest in keys.digests]
        if not any(matches):
            raise APIError(
                401, "The API key is not one of this server's: check it.", code="invalid_api_key"
            )

    def _read(self, path: Path) -> _Read:
        try:
            found = path.stat()
            signature = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)
            if signature == self._last.signature:
                return self._last
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not UTF-8"
            return self._use(_Read(problem=f"The API key file can't be read ({reason}): mount it."))
        digests = tuple(_digest(line) for line in text.splitlines() if line.strip())
        problem = None if digests else "The API key file has no keys: write one in each line."
        return self._use(_Read(signature, digests, problem))

    def _use(self, read: _Read) -> _Read:
        if read != self._last:
            if read.problem:
                log.warning(read.problem)
            else:
                log.info("Read the API keys", extra={"keys": len(read.digests)})
        self._last = read
        return read


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.strip().encode()).digest()
