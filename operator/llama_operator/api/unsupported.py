"""Fields that exist so that their names are settled, but that this version does not act on.

The API server refuses them. When a version begins to act on one, its entry is
removed here and nothing else has to change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Unsupported:
    """One field, or some of its values, that this version refuses."""

    path: str
    """The node at which it is checked, such as `spec.model`."""

    field: str
    """The field of the node that is refused; empty when it is the node itself."""

    refused: str
    """CEL that is true when it is used; `self` is the node."""

    message: str
    """A sentence: what is not supported, and what to do instead."""


UNSUPPORTED: Final = (
    Unsupported(
        "spec.model.source",
        "",
        "self.matches(r'^(hf|https|s3|oci)://')",
        "model.source with hf://, https://, s3:// or oci:// is not supported by this version: put"
        " the file on a PersistentVolumeClaim and write pvc://CLAIM/PATH.",
    ),
    Unsupported(
        "spec.model",
        "credentialsSecretRef",
        "has(self.credentialsSecretRef)",
        "model.credentialsSecretRef is not supported by this version, which downloads nothing:"
        " remove it.",
    ),
    Unsupported(
        "spec.model",
        "cache",
        "has(self.cache)",
        "model.cache is not supported by this version, which downloads nothing: remove it.",
    ),
)
