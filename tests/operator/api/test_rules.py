"""Every rule of the CRD, asked of the real API server: one resource taken, one refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from llama_operator.api.rules import RULES, all_rules
from llama_operator.api.unsupported import UNSUPPORTED
from tests.operator.api.conftest import ApiServer
from tests.operator.api.manifests import manifest

Changes = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """Two resources at the two sides of a rule."""

    refused: Changes
    message: str
    """What the user reads of the refused one."""

    taken: Changes = field(default_factory=dict)


GPUS_2 = {"spec.resources.gpus": 2}
UNIFIED = {"spec.kv.layout": "Unified", "spec.kv.maxSequences": 4}

CASES = (
    Case(
        {"metadata.name": "a" * 51},
        "metadata.name must have at most 50 lower-case letters, digits and '-', begin with a"
        " letter and not end with '-': the Service and the pods are named after it.",
        {"metadata.name": "a" * 50},
    ),
    Case({"metadata.name": "7b"}, "begin with a letter and not end with '-'"),
    Case({"metadata.name": "chat.v2"}, "the Service and the pods are named after it"),
    Case(
        {"spec.model.source": "ftp://host/model.gguf"},
        "model.source must begin with one of hf://, https://, s3://, pvc://, oci:// and have no"
        " blanks and no '$': write it as pvc://CLAIM/PATH.",
        {"spec.model.source": "pvc://models/llama-3.gguf"},
    ),
    Case({"spec.model.source": "/models/model.gguf"}, "model.source must begin with one of"),
    Case({"spec.model.source": "pvc://models/a b.gguf"}, "no blanks"),
    Case({"spec.model.source": "pvc://models/$(HOME)"}, "no '$'"),
    Case(
        {"spec.model.source": "pvc://models"},
        "model.source must name a claim and a file on it, without '.', '..' or empty parts:"
        " write it as pvc://CLAIM/PATH.",
        {"spec.model.source": "pvc://team.models/chat/llama-00001-of-00003.gguf"},
    ),
    Case({"spec.model.source": "pvc://models/../etc/passwd"}, "without '.', '..' or empty parts"),
    Case({"spec.model.source": "pvc://models/a//b.gguf"}, "without '.', '..' or empty parts"),
    Case({"spec.model.source": "pvc://Models/a.gguf"}, "model.source must name a claim"),
    Case(
        {"spec.model.sha256": "F" * 64},
        "model.sha256 must be 64 hexadecimal digits in lower case, as sha256sum prints them.",
        {"spec.model.sha256": "0f" * 32},
    ),
    Case({"spec.model.sha256": "0f"}, "model.sha256 must be 64 hexadecimal digits"),
    Case(
        {"spec.model.alias": "llama 3"},
        "model.alias must begin with a letter or a digit and have only letters, digits and"
        " -_.:/@+ in it.",
        {"spec.model.alias": "meta-llama/Llama-3.1-8B:Q5_K_M"},
    ),
    Case(
        {"spec.model.cache": {"size": "1Gi", "claimName": "cache"}},
        "model.cache must have either size, for a claim that is made, or claimName, for one that"
        " exists.",
        {"spec.model.cache": {"claimName": "cache"}},
    ),
    Case({"spec.model.cache": {}}, "model.cache must have either size"),
    Case(
        {"spec.model.cache": {"size": "20 GB"}},
        "model.cache.size must be a quantity of at least 1Mi: write it as 20Gi.",
        {"spec.model.cache": {"size": "20Gi"}},
    ),
    Case(
        {"spec.kv.maxSequences": 256, "spec.kv.contextPerSequence": 16_777_216},
        "kv.maxSequences times kv.contextPerSequence is 4294967296 cells, and llama.cpp can count"
        " 2147483647: lower one of them.",
        {"spec.kv.maxSequences": 127, "spec.kv.contextPerSequence": 16_777_216},
    ),
    Case(
        {"spec.kv.totalContext": 8192},
        "kv.totalContext is for kv.layout Unified; with Partitioned every sequence has"
        " contextPerSequence tokens of its own: remove it or set the layout.",
        UNIFIED | {"spec.kv.totalContext": 8192},
    ),
    Case(
        UNIFIED | {"spec.kv.totalContext": 16_385},
        "kv.totalContext (16385) is more than all sequences can use: maxSequences x"
        " contextPerSequence = 16384. Lower it to that or less.",
        UNIFIED | {"spec.kv.totalContext": 16_384},
    ),
    Case(
        UNIFIED | {"spec.kv.totalContext": 4095},
        "kv.totalContext (4095) has no room for one sequence of contextPerSequence (4096) tokens:"
        " raise it.",
        UNIFIED | {"spec.kv.totalContext": 4096},
    ),
    Case(
        {"spec.engine.batchSize": 256},
        "engine.microBatchSize (512) is more than engine.batchSize (256): set both.",
        {"spec.engine.batchSize": 256, "spec.engine.microBatchSize": 256},
    ),
    Case(
        GPUS_2 | {"spec.engine.tensorSplit": [0, 0]},
        "engine.tensorSplit must give at least one GPU a share above 0.",
        GPUS_2 | {"spec.engine.tensorSplit": [0, 1]},
    ),
    Case(
        {"spec.engine": {"batchSize": 8, "microBatchSize": 8}},
        "engine.batchSize (8) is less than kv.maxSequences (16): a step has a token of every"
        " sequence. Raise it.",
        {"spec.engine": {"batchSize": 16, "microBatchSize": 16}},
    ),
    Case(
        {"spec.kv.typeV": "q8_0", "spec.engine.flashAttention": "Disabled"},
        "kv.typeV q8_0 needs flash attention: set engine.flashAttention to Auto or Enabled, or"
        " kv.typeV to f16.",
        {"spec.kv.typeV": "bf16", "spec.engine.flashAttention": "Disabled"},
    ),
    Case(
        {"spec.resources.gpus": 0, "spec.engine.gpuLayers": 1},
        "engine.gpuLayers is 1 and resources.gpus is 0: ask for a GPU or remove engine.gpuLayers.",
        {"spec.resources.gpus": 0, "spec.engine.gpuLayers": -1},
    ),
    Case(
        GPUS_2 | {"spec.engine.tensorSplit": [3, 1, 1]},
        "engine.tensorSplit has 3 shares and resources.gpus is 2: it needs more than one GPU and"
        " a share for each.",
        GPUS_2 | {"spec.engine.tensorSplit": [3, 1.5]},
    ),
    Case({"spec.engine.tensorSplit": [1]}, "engine.tensorSplit has 1 shares and resources.gpus is"),
    Case(
        {"spec.resources.cpu": "1500m", "spec.engine.threads": 3},
        "engine.threads (3) is more than resources.cpu (1500m), which is the limit: the threads"
        " would wait for each other. Lower it or remove it.",
        {"spec.resources.cpu": "1500m", "spec.engine.threads": 2},
    ),
    Case({"spec.engine.threads": 3}, "engine.threads (3) is more than resources.cpu (2)"),
    Case(
        {"spec.resources.cpu": "two"},
        "resources.cpu must be a quantity of at least 1m: write it as 8 or 500m.",
        {"spec.resources.cpu": 4},
    ),
    Case({"spec.resources.cpu": 0}, "resources.cpu must be a quantity of at least 1m"),
    Case({"spec.resources.cpu": "-1"}, "resources.cpu must be a quantity of at least 1m"),
    Case(
        {"spec.resources.memory": "500m"},
        "resources.memory must be a quantity of at least 64Mi: write it as 8Gi.",
        {"spec.resources.memory": 8_589_934_592},
    ),
    Case(
        {"spec.kv.hostCache": "-1"},
        "kv.hostCache must be a quantity of at least 0: write it as 2Gi.",
        {"spec.kv.hostCache": 0},
    ),
    Case(
        {"spec.kv.hostCache": "8Gi"},
        "kv.hostCache (8Gi) is a part of resources.memory (8Gi), which also holds the model: lower"
        " the first or raise the second.",
        {"spec.kv.hostCache": "2Gi"},
    ),
    Case({"spec.resources.memory": 8}, "resources.memory must be a quantity of at least 64Mi"),
    Case(
        {"spec.resources.gpuResourceName": "gpu"},
        "resources.gpuResourceName must be what a device plugin offers, such as nvidia.com/gpu or"
        " amd.com/gpu.",
        {"spec.resources.gpuResourceName": "nvidia.com/mig-3g.40gb"},
    ),
    Case(
        {"spec.resources.cpu": "1500m", "spec.numa.policy": "Required"},
        "resources.cpu (1500m) must be a whole number with numa.policy Required: the kubelet pins"
        " whole CPUs only.",
        {"spec.resources.cpu": "1500m", "spec.numa.policy": "Preferred"},
    ),
    Case(
        {"spec.resources.cpu": "2000m", "spec.numa.policy": "Required"},
        "resources.cpu (2000m) must be a whole number",
        {"spec.resources.cpu": 2, "spec.numa.policy": "Required"},
    ),
    Case(
        {"spec.restart.schedule": "every night"},
        "restart.schedule must be a cron line of five fields (minute, hour, day, month, weekday),"
        " such as 0 3 * * * for every night at three.",
        {"spec.restart.schedule": "*/15 2-4 1,15 * MON-fri"},
    ),
    Case(
        {"spec.restart.schedule": "0 0 30 2 *"},
        "restart.schedule names a day that its months do not have: correct the day of the month.",
        {"spec.restart.schedule": "0 0 29 2 *"},
    ),
    Case(
        {"spec.rollout.updatePolicy": "Window"},
        "rollout.updatePolicy Window needs a window: set restart.schedule, such as 0 3 * * *.",
        {"spec.rollout.updatePolicy": "Window", "spec.restart.schedule": "0 3 * * *"},
    ),
    Case({"spec.restart.schedule": "60 3 * * *"}, "restart.schedule must be a cron line"),
    Case({"spec.restart.schedule": "0 3 * *"}, "restart.schedule must be a cron line"),
    Case({"spec.restart.schedule": "0 0 3 * * *"}, "restart.schedule must be a cron line"),
    Case({"spec.restart.schedule": "@daily"}, "restart.schedule must be a cron line"),
    Case(
        {"spec.restart.timeZone": "Europe / Berlin"},
        "restart.timeZone must be a name of the IANA time zone database, such as Europe/Berlin.",
        {"spec.restart.timeZone": "America/Argentina/Buenos_Aires"},
    ),
    Case({"spec.restart.timeZone": "+01:00"}, "restart.timeZone must be a name"),
    Case(
        {"spec.restart.window": "30s"},
        "restart.window must be a duration from 1m to 24h: write it as 90s, 5m or 1h30m.",
        {"spec.restart.window": "1m"},
    ),
    Case(
        {"spec.restart.jitter": "25h"},
        "restart.jitter must be a duration from 0s to 24h: write it as 90s, 5m or 1h30m.",
        {"spec.restart.jitter": "24h"},
    ),
    Case(
        {"spec.restart.minUptime": "6 hours"},
        "restart.minUptime must be a duration from 0s to 720h: write it as 90s, 5m or 1h30m.",
        {"spec.restart.minUptime": "0s"},
    ),
    Case(
        {"spec.rollout.drainTimeout": "5"},
        "rollout.drainTimeout must be a duration from 0s to 1h: write it as 90s, 5m or 1h30m.",
        {"spec.rollout.drainTimeout": "1h"},
    ),
    Case({"spec.rollout.drainTimeout": ""}, "rollout.drainTimeout must be a duration"),
    Case({"spec.rollout.drainTimeout": "1h1s"}, "rollout.drainTimeout must be a duration"),
    Case({"spec.rollout.drainTimeout": "-5m"}, "rollout.drainTimeout must be a duration"),
    Case(
        {"spec.image": "registry.example/llama runtime"},
        "image must have no blanks: write it as REGISTRY/NAME:TAG.",
        {"spec.image": "registry.example:5000/llama-runtime@sha256:" + "0f" * 32},
    ),
    Case(
        {"spec.tolerations": [{"value": "gpu"}]},
        "a toleration without a key needs operator Exists.",
        {"spec.tolerations": [{"operator": "Exists"}, {"key": "gpu", "value": "yes"}]},
    ),
    Case(
        {"spec.tolerations": [{"key": "gpu", "operator": "Exists", "value": "yes"}]},
        "a toleration with operator Exists has no value: remove it.",
        {"spec.tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]},
    ),
    Case(
        {"spec.tolerations": [{"key": "gpu", "value": "yes", "tolerationSeconds": 60}]},
        "tolerationSeconds is for effect NoExecute.",
        {
            "spec.tolerations": [
                {"key": "gpu", "value": "yes", "effect": "NoExecute", "tolerationSeconds": 60}
            ]
        },
    ),
    Case(
        {"spec.podLabels": {"llama-operator.dev/index": "7"}},
        "podLabels under llama-operator.dev/ and app.kubernetes.io/ are the operator's own:"
        " remove them.",
        {"spec.podLabels": {"team": "chat"}},
    ),
    Case({"spec.podLabels": {"app.kubernetes.io/name": "x"}}, "are the operator's own"),
    Case(
        {"spec.podAnnotations": {"llama-operator.dev/template-hash": "x"}},
        "podAnnotations under llama-operator.dev/ are the operator's own: remove them.",
        {"spec.podAnnotations": {"prometheus.io/scrape": "true"}},
    ),
    Case(
        {"spec.model.source": "hf://owner/repository/model.gguf"},
        "model.source with hf://, https://, s3:// or oci:// is not supported by this version: put"
        " the file on a PersistentVolumeClaim and write pvc://CLAIM/PATH.",
    ),
    Case(
        {"spec.model.credentialsSecretRef": {"name": "token"}},
        "model.credentialsSecretRef is not supported by this version, which downloads nothing:"
        " remove it.",
    ),
    Case(
        {"spec.model.cache": {"claimName": "cache"}},
        "model.cache is not supported by this version, which downloads nothing: remove it.",
    ),
)

NOT_SUPPORTED = tuple(entry.message for entry in UNSUPPORTED)


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.refused)[:60])
def test_refuses(api_server: ApiServer, case: Case) -> None:
    answer = api_server.ask(manifest(case.refused))

    assert answer.stored is None
    assert answer.complains(case.message), answer.complaints


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.taken], ids=lambda case: str(case.taken)[:60]
)
def test_takes(api_server: ApiServer, case: Case) -> None:
    answer = api_server.ask(manifest(case.taken))

    # A field that this version does not support yet is refused for that reason alone.
    others = [text for text in answer.complaints if not text.endswith(NOT_SUPPORTED)]
    assert others == []


def test_the_smallest_resource_breaks_no_rule(api_server: ApiServer) -> None:
    assert api_server.ask(manifest()).complaints == ()


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.message[:60])
def test_every_rule_has_a_case(rule: Any) -> None:
    beginning = rule.message.split("%")[0]
    rest = rule.message.rsplit("%", 1)[-1][1:] if rule.values else rule.message

    cases = [case for case in CASES if beginning in case.message and rest in case.message]

    assert cases, f"No case refuses what this rule refuses: {rule.message}"
    if rule in RULES:
        assert any(case.taken for case in cases)


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.message[:60])
def test_messages_are_sentences(rule: Any) -> None:
    assert rule.message.endswith(".")
    assert rule.message.count("%") == len(rule.values)
    assert not (rule.values and "'" in rule.message), "it is put into a CEL string"
