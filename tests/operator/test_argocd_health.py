"""The Lua health check of docs/gitops.md."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster_fixtures import REPOSITORY
from tests.operator.argocd import HEALTH_CHECK, health
from tests.operator.objects import a_resource


def seen(
    conditions: dict[str, str], *, generation: int = 1, deleted: bool = False
) -> dict[str, Any]:
    """A resource of generation 1 whose status is about `generation`."""
    manifest = a_resource()
    if deleted:
        manifest["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    manifest["status"] = {
        "observedGeneration": generation,
        "conditions": [
            {"type": name, "status": status, "reason": "Because", "message": f"{name} says so."}
            for name, status in conditions.items()
        ],
    }
    return manifest


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (
            seen({"Ready": "True", "Reconciling": "False", "Stalled": "False"}),
            ("Healthy", "Ready says so."),
        ),
        (
            seen({"Ready": "False", "Reconciling": "True", "Stalled": "False"}),
            ("Progressing", "Reconciling says so."),
        ),
        (
            seen({"Ready": "True", "Reconciling": "True", "Stalled": "False"}),
            ("Progressing", "Reconciling says so."),
        ),
        (
            seen({"Ready": "False", "Reconciling": "False", "Stalled": "True"}),
            ("Degraded", "Stalled says so."),
        ),
        (seen({"Ready": "Unknown"}), ("Progressing", "Ready says so.")),
        (seen({}), ("Progressing", "It has no condition Ready yet.")),
        (seen({"Ready": "True"}, deleted=True), ("Progressing", "It is being deleted.")),
    ],
)
def test_says_what_the_conditions_say(manifest: dict[str, Any], expected: tuple[str, str]) -> None:
    assert health(manifest) == expected


@pytest.mark.parametrize("generation", [-1, 0, 2])
def test_a_status_of_another_generation_is_progress(generation: int) -> None:
    assert health(seen({"Ready": "True"}, generation=generation))[0] == "Progressing"
    assert health(seen({"Stalled": "True"}, generation=generation))[0] == "Progressing"


def test_an_object_that_nobody_has_seen_is_progress() -> None:
    assert health(a_resource())[0] == "Progressing"


@given(st.dictionaries(st.sampled_from(["Ready", "Reconciling", "Stalled", "ModelLoaded"]),
                       st.sampled_from(["True", "False", "Unknown"])))  # fmt: skip
def test_it_is_healthy_only_when_ready_and_degraded_only_when_stalled(
    conditions: dict[str, str],
) -> None:
    found, _ = health(seen(conditions))

    assert (found == "Degraded") == (conditions.get("Stalled") == "True")
    if found == "Healthy":
        assert conditions.get("Ready") == "True"
        assert conditions.get("Reconciling") != "True"


def test_the_page_shows_the_very_file() -> None:
    page = (REPOSITORY / "docs/gitops.md").read_text()
    block = next(block for block in page.split("```") if "health.llama-operator.dev" in block)
    settings = yaml.safe_load(block.removeprefix("yaml"))

    shown = settings["data"]["resource.customizations.health.llama-operator.dev_LlamaDeployment"]
    assert shown.strip() == HEALTH_CHECK.read_text().strip()
