"""Every version of the test's LlamaDeployments, as a watch tells of them."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from tests.cluster_fixtures import cluster_program
from tests.operator.argocd import health
from tests.operator.integration.api import Api


class History:
    """What was to be seen since it was made; nothing in between is left out."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._version = api.version("llamadeployments")
        self.manifests: list[dict[str, Any]] = []

    def catch_up(self) -> list[dict[str, Any]]:
        """Take what is new. Often enough: the API server forgets after some minutes."""
        for event in self._api.changes("llamadeployments", self._version):
            assert event["type"] in ("ADDED", "MODIFIED", "DELETED"), event
            self._version = event["object"]["metadata"]["resourceVersion"]
            self.manifests.append(event["object"])
        return self.manifests

    def kstatus(self) -> list[str]:
        """The status of each version by the library that Flux and helm use."""
        objects = "\n".join(json.dumps(manifest) for manifest in self.manifests)
        return subprocess.run(
            [cluster_program(), "kstatus"],
            input=objects,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()

    def argocd(self) -> list[str]:
        """The health of each version by the check in docs/examples."""
        return [health(manifest)[0] for manifest in self.manifests]


def without_repeats(words: list[str]) -> list[str]:
    """Each word once for every time that it begins."""
    return [word for index, word in enumerate(words) if index == 0 or words[index - 1] != word]
