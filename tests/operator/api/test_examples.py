"""The examples are what the API server takes, and what the models read."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from llama_operator.api import LlamaDeployment, Restart, Thresholds
from tests.cluster_fixtures import REPOSITORY
from tests.operator.api.conftest import ApiServer

EXAMPLES = sorted((REPOSITORY / "examples").glob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_is_taken(api_server: ApiServer, path: Path) -> None:
    document = yaml.safe_load(path.read_text())
    document["metadata"]["namespace"] = "default"

    answer = api_server.ask(document)

    assert answer.complaints == ()
    assert answer.stored is not None
    LlamaDeployment.from_json(answer.stored)


def test_all_can_be_applied_together() -> None:
    names = [yaml.safe_load(path.read_text())["metadata"]["name"] for path in EXAMPLES]

    assert len(EXAMPLES) >= 5
    assert len(set(names)) == len(names)


def test_the_one_of_restarts_has_every_field() -> None:
    document = yaml.safe_load((REPOSITORY / "examples/restarts.yaml").read_text())
    restart = document["spec"]["restart"]

    assert set(restart) == {field.alias for field in Restart.model_fields.values()}
    assert set(restart["thresholds"]) == {field.alias for field in Thresholds.model_fields.values()}


def test_the_smallest_has_five_lines() -> None:
    lines = (REPOSITORY / "examples/minimal.yaml").read_text().splitlines()

    assert len([line for line in lines if not line.startswith("#")]) == 5
