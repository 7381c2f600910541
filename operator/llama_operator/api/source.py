"""Where a model comes from: the text of `spec.model.source`."""

from __future__ import annotations

import re
from dataclasses import dataclass

SCHEMES = ("hf", "https", "s3", "pvc", "oci")

SOURCE_PATTERN = rf"^({'|'.join(SCHEMES)})://[^\s$]+$"
"""A known scheme and something after it. `$` is left out: Kubernetes expands `$(NAME)` in args."""

CLAIM_SOURCE_PATTERN = (
    r"^pvc://([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?)"  # the claim's name
    r"(/[^/\s$.][^/\s$]*|/\.[^/\s$.][^/\s$]*)+$"  # segments, none of them empty, `.` or `..`
)
"""`pvc://CLAIM/PATH`; also used, as it is, in the CRD's rules (RE2)."""

_CLAIM_SOURCE = re.compile(CLAIM_SOURCE_PATTERN)


@dataclass(frozen=True, slots=True)
class ClaimSource:
    """A file on a PersistentVolumeClaim in the resource's namespace."""

    claim: str
    path: str
    """The file, relative to the root of the volume."""


def parse_claim_source(source: str) -> ClaimSource:
    """Split `pvc://CLAIM/PATH`.

    Raises ValueError when it is anything else.
    """
    match = _CLAIM_SOURCE.fullmatch(source)
    if match is None:
        raise ValueError(
            f"{source!r} is not a file on a claim: write model.source as pvc://CLAIM/PATH."
        )
    claim = match.group(1)
    return ClaimSource(claim=claim, path=source.removeprefix(f"pvc://{claim}/"))
