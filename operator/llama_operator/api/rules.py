"""The rules of the resource that need no cluster, in CEL.

The API server checks them at apply, so that no webhook is needed. Messages are
sentences: what is wrong, and what to write instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from llama_operator.api.cron import CRON_PATTERN, NEVER_PATTERN
from llama_operator.api.source import CLAIM_SOURCE_PATTERN, SCHEMES, SOURCE_PATTERN
from llama_operator.api.units import DURATION_PATTERN
from llama_operator.api.unsupported import UNSUPPORTED, Unsupported

MAX_CELLS: Final = 2_147_483_647
"""Most cells a cache may have: llama.cpp counts them in 32 bits."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One CEL rule of the CRD."""

    path: str
    """The node at which it is checked, such as `spec.kv`; empty for the whole resource."""

    rule: str
    """CEL that is true when all is well; `self` is the node."""

    message: str
    """A sentence for the user, with a `%s` or `%d` for each of `values`."""

    values: tuple[str, ...] = ()
    """CEL of what is put into the message."""

    field: str = ""
    """The field of the node that is to blame; the node itself when empty."""


def all_rules(unsupported: tuple[Unsupported, ...] = UNSUPPORTED) -> tuple[Rule, ...]:
    """Every rule of the CRD, those that refuse unsupported fields included."""
    return (*RULES, *(_refuse(entry) for entry in unsupported))


def _refuse(entry: Unsupported) -> Rule:
    return Rule(entry.path, f"!({entry.refused})", entry.message, field=entry.field)


def _matches(pattern: str) -> str:
    return f"self.matches(r'{pattern}')"


def _duration(path: str, least: str, most: str) -> Rule:
    return Rule(
        path,
        f"self != '' && {_matches(DURATION_PATTERN)}"
        f" && duration(self) >= duration('{least}') && duration(self) <= duration('{most}')",
        f"{path.removeprefix('spec.')} must be a duration from {least} to {most}:"
        " write it as 90s, 5m or 1h30m.",
    )


def _quantity(path: str, least: str, example: str) -> Rule:
    name = path.removeprefix("spec.")
    return Rule(
        path,
        f"isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('{least}')) >= 0",
        f"{name} must be a quantity of at least {least}: write it as {example}.",
    )


_LABEL_RESERVED = "startsWith('llama-operator.dev/')"
_RECOMMENDED_RESERVED = "startsWith('app.kubernetes.io/')"

RULES: Final = (
    Rule(
        "",
        "self.metadata.name.matches(r'^[a-z]([-a-z0-9]{0,48}[a-z0-9])?$')",
        "metadata.name must have at most 50 lower-case letters, digits and '-', begin with a"
        " letter and not end with '-': the Service and the pods are named after it.",
    ),
    # The model
    Rule(
        "spec.model.source",
        _matches(SOURCE_PATTERN),
        f"model.source must begin with one of {', '.join(f'{name}://' for name in SCHEMES)}"
        " and have no blanks and no '$': write it as pvc://CLAIM/PATH.",
    ),
    Rule(
        "spec.model.source",
        f"!self.startsWith('pvc://') || {_matches(CLAIM_SOURCE_PATTERN)}",
        "model.source must name a claim and a file on it, without '.', '..' or empty parts:"
        " write it as pvc://CLAIM/PATH.",
    ),
    Rule(
        "spec.model.sha256",
        _matches("^[0-9a-f]{64}$"),
        "model.sha256 must be 64 hexadecimal digits in lower case, as sha256sum prints them.",
    ),
    Rule(
        "spec.model.alias",
        _matches("^[A-Za-z0-9][-A-Za-z0-9_.:/@+]*$"),
        "model.alias must begin with a letter or a digit and have only letters, digits and"
        " -_.:/@+ in it.",
    ),
    Rule(
        "spec.model.cache",
        "has(self.size) != has(self.claimName)",
        "model.cache must have either size, for a claim that is made, or claimName, for one"
        " that exists.",
    ),
    _quantity("spec.model.cache.size", "1Mi", "20Gi"),
    # The KV cache
    Rule(
        "spec.kv",
        f"self.maxSequences * self.contextPerSequence <= {MAX_CELLS}",
        f"kv.maxSequences times kv.contextPerSequence is %d cells, and llama.cpp can count"
        f" {MAX_CELLS}: lower one of them.",
        values=("self.maxSequences * self.contextPerSequence",),
        field="contextPerSequence",
    ),
    Rule(
        "spec.kv",
        "!has(self.totalContext) || self.layout == 'Unified'",
        "kv.totalContext is for kv.layout Unified; with Partitioned every sequence has"
        " contextPerSequence tokens of its own: remove it or set the layout.",
        field="totalContext",
    ),
    Rule(
        "spec.kv",
        "!has(self.totalContext)"
        " || self.totalContext <= self.maxSequences * self.contextPerSequence",
        "kv.totalContext (%d) is more than all sequences can use: maxSequences x"
        " contextPerSequence = %d. Lower it to that or less.",
        values=("self.totalContext", "self.maxSequences * self.contextPerSequence"),
        field="totalContext",
    ),
    Rule(
        "spec.kv",
        "!has(self.totalContext) || self.totalContext >= self.contextPerSequence",
        "kv.totalContext (%d) has no room for one sequence of contextPerSequence (%d) tokens:"
        " raise it.",
        values=("self.totalContext", "self.contextPerSequence"),
        field="totalContext",
    ),
    # The engine
    Rule(
        "spec.engine",
        "self.microBatchSize <= self.batchSize",
        "engine.microBatchSize (%d) is more than engine.batchSize (%d): set both.",
        values=("self.microBatchSize", "self.batchSize"),
        field="microBatchSize",
    ),
    Rule(
        "spec.engine.tensorSplit",
        "self.exists(share, share > 0.0)",
        "engine.tensorSplit must give at least one GPU a share above 0.",
    ),
    Rule(
        "spec",
        "self.engine.batchSize >= self.kv.maxSequences",
        "engine.batchSize (%d) is less than kv.maxSequences (%d): a step has a token of every"
        " sequence. Raise it.",
        values=("self.engine.batchSize", "self.kv.maxSequences"),
        field="engine.batchSize",
    ),
    Rule(
        "spec",
        "self.kv.typeV in ['f32', 'f16', 'bf16'] || self.engine.flashAttention != 'Disabled'",
        "kv.typeV %s needs flash attention: set engine.flashAttention to Auto or Enabled, or"
        " kv.typeV to f16.",
        values=("self.kv.typeV",),
        field="kv.typeV",
    ),
    Rule(
        "spec",
        "self.resources.gpus > 0 || self.engine.gpuLayers <= 0",
        "engine.gpuLayers is %d and resources.gpus is 0: ask for a GPU or remove engine.gpuLayers.",
        values=("self.engine.gpuLayers",),
        field="engine.gpuLayers",
    ),
    Rule(
        "spec",
        "!has(self.engine.tensorSplit)"
        " || (self.resources.gpus > 1 && self.engine.tensorSplit.size() == self.resources.gpus)",
        "engine.tensorSplit has %d shares and resources.gpus is %d: it needs more than one GPU and"
        " a share for each.",
        values=("self.engine.tensorSplit.size()", "self.resources.gpus"),
        field="engine.tensorSplit",
    ),
    Rule(
        "spec",
        "!has(self.engine.threads) || self.numa.policy == 'None'"
        " || !isQuantity(string(self.resources.cpu))"
        " || quantity(string(self.resources.cpu))"
        ".compareTo(quantity('0').add(self.engine.threads - 1)) > 0",
        "engine.threads (%d) is more than resources.cpu (%s), which is the limit: the threads would"
        " wait for each other. Lower it or remove it.",
        values=("self.engine.threads", "self.resources.cpu"),
        field="engine.threads",
    ),
    # What a pod gets
    _quantity("spec.resources.cpu", "1m", "8 or 500m"),
    _quantity("spec.resources.memory", "64Mi", "8Gi"),
    _quantity("spec.kv.hostCache", "0", "2Gi"),
    Rule(
        "spec",
        "!isQuantity(string(self.kv.hostCache)) || !isQuantity(string(self.resources.memory))"
        " || quantity(string(self.kv.hostCache))"
        ".compareTo(quantity(string(self.resources.memory))) < 0",
        "kv.hostCache (%s) is a part of resources.memory (%s), which also holds the model: lower"
        " the first or raise the second.",
        values=("string(self.kv.hostCache)", "string(self.resources.memory)"),
        field="kv.hostCache",
    ),
    Rule(
        "spec.resources.gpuResourceName",
        "self.matches(r'^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')"
        " && !self.contains('kubernetes.io/')",
        "resources.gpuResourceName must be what a device plugin offers, such as nvidia.com/gpu or"
        " amd.com/gpu.",
    ),
    Rule(
        "spec",
        "self.numa.policy != 'Required' || string(self.resources.cpu).matches(r'^[1-9][0-9]*$')",
        "resources.cpu (%s) must be a whole number with numa.policy Required: the kubelet pins"
        " whole CPUs only.",
        values=("self.resources.cpu",),
        field="resources.cpu",
    ),
    # Restarts and rollouts
    Rule(
        "spec.restart.schedule",
        _matches(CRON_PATTERN),
        "restart.schedule must be a cron line of five fields (minute, hour, day, month, weekday),"
        " such as 0 3 * * * for every night at three.",
    ),
    Rule(
        "spec.restart.schedule",
        f"!{_matches(NEVER_PATTERN)}",
        "restart.schedule names a day that its months do not have: correct the day of the month.",
    ),
    Rule(
        "spec.restart.timeZone",
        _matches("^[A-Za-z][-A-Za-z0-9_+]*(/[A-Za-z0-9][-A-Za-z0-9_+]*){0,2}$"),
        "restart.timeZone must be a name of the IANA time zone database, such as Europe/Berlin.",
    ),
    _duration("spec.restart.window", "1m", "24h"),
    _duration("spec.restart.jitter", "0s", "24h"),
    _duration("spec.restart.minUptime", "0s", "720h"),
    _duration("spec.rollout.drainTimeout", "0s", "1h"),
    Rule(
        "spec",
        "self.rollout.updatePolicy != 'Window'"
        " || (has(self.restart) && has(self.restart.schedule))",
        "rollout.updatePolicy Window needs a window: set restart.schedule, such as 0 3 * * *.",
        field="rollout.updatePolicy",
    ),
    # Passed through to the pods
    Rule(
        "spec.image",
        _matches(r"^[^\s$]+$"),
        "image must have no blanks: write it as REGISTRY/NAME:TAG.",
    ),
    Rule(
        "spec.tolerations[]",
        "has(self.key) && self.key != '' || (has(self.operator) && self.operator == 'Exists')",
        "a toleration without a key needs operator Exists.",
    ),
    Rule(
        "spec.tolerations[]",
        "!(has(self.operator) && self.operator == 'Exists' && has(self.value) && self.value != '')",
        "a toleration with operator Exists has no value: remove it.",
    ),
    Rule(
        "spec.tolerations[]",
        "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
        "tolerationSeconds is for effect NoExecute.",
    ),
    Rule(
        "spec.podLabels",
        f"self.all(key, !key.{_LABEL_RESERVED} && !key.{_RECOMMENDED_RESERVED})",
        "podLabels under llama-operator.dev/ and app.kubernetes.io/ are the operator's own:"
        " remove them.",
    ),
    Rule(
        "spec.podAnnotations",
        f"self.all(key, !key.{_LABEL_RESERVED})",
        "podAnnotations under llama-operator.dev/ are the operator's own: remove them.",
    ),
)
