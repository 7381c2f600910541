"""The models: JSON in, JSON out, and what they refuse."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from pydantic import ValidationError

from llama_operator.api import LastRestart, LlamaDeployment, LlamaDeploymentStatus, PodStatus
from tests.operator.api.manifests import MINIMAL, manifest


def test_five_lines_are_enough() -> None:
    spec = LlamaDeployment.from_json(MINIMAL).spec

    assert spec.replicas == 1
    assert spec.kv.max_sequences == 16
    assert spec.kv.context_per_sequence == 4096
    assert spec.kv.layout == "Partitioned"
    assert spec.resources.gpus == 1
    assert spec.numa.policy == "Preferred"
    assert spec.restart is None


def test_a_quantity_keeps_the_users_text() -> None:
    document = manifest({"spec.resources.cpu": 4, "spec.resources.memory": "8192Mi"})

    resources = LlamaDeployment.from_json(document).to_json()["spec"]["resources"]

    assert resources["cpu"] == 4
    assert resources["memory"] == "8192Mi"


def test_an_unknown_field_of_the_spec_is_refused() -> None:
    with pytest.raises(ValidationError, match="kvNSeqMax"):
        LlamaDeployment.from_json(manifest({"spec.kv.kvNSeqMax": 4}))


def test_a_status_of_a_newer_version_is_read() -> None:
    document = manifest({"status.replicas": 2, "status.invented": {"later": True}})

    assert LlamaDeployment.from_json(document).status.replicas == 2


def test_what_the_operator_does_not_need_of_the_metadata_is_left_out() -> None:
    document = manifest({"metadata.managedFields": [{"manager": "kubectl"}]})

    assert "managedFields" not in LlamaDeployment.from_json(document).to_json()["metadata"]


def test_times_are_written_as_kubernetes_writes_them() -> None:
    berlin = timezone(timedelta(hours=2))
    restart = LastRestart(
        time=datetime(2026, 7, 1, 3, 0, 0, 999_999, berlin), reason="Scheduled", method="Container"
    )

    assert restart.to_json()["time"] == "2026-07-01T01:00:00Z"


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValidationError, match="timezone"):
        LastRestart.model_validate(
            {"time": "2026-07-01T03:00:00", "reason": "Scheduled", "method": "Pod"}
        )


def test_a_status_is_the_same_after_a_round_trip() -> None:
    status = LlamaDeploymentStatus(
        observed_generation=3,
        replicas=1,
        pods=(
            PodStatus(
                name="chat-0",
                node="node-0",
                ready=True,
                numa_node=1,
                last_restart=LastRestart(
                    time=datetime(2026, 7, 1, tzinfo=UTC), reason="Scheduled", method="Compact"
                ),
            ),
        ),
    )

    assert LlamaDeploymentStatus.model_validate(status.to_json()) == status


def test_a_resource_cannot_be_changed() -> None:
    resource = LlamaDeployment.from_json(MINIMAL)

    with pytest.raises(ValidationError, match="frozen"):
        resource.spec.replicas = 2
