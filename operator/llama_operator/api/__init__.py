"""The `LlamaDeployment` resource as typed models, and the rules that its CRD carries.

The models are the one source: `crds/` and the reference in the docs are
generated from them by `tools/generate.py`.
"""

from llama_operator.api.base import Resource
from llama_operator.api.resource import (
    API_VERSION,
    GROUP,
    KIND,
    PLURAL,
    SHORT_NAME,
    SINGULAR,
    VERSION,
    LlamaDeployment,
    Metadata,
)
from llama_operator.api.source import ClaimSource, parse_claim_source
from llama_operator.api.spec import (
    Cache,
    Engine,
    Kv,
    LlamaDeploymentSpec,
    LocalObjectReference,
    Model,
    Numa,
    Resources,
    Restart,
    Rollout,
    SecretKeyReference,
    Server,
    Thresholds,
    Toleration,
)
from llama_operator.api.status import (
    UNSEEN_STATUS,
    AvoidedNode,
    Condition,
    KvStatus,
    LastRestart,
    LlamaDeploymentStatus,
    Measurement,
    PodStatus,
    RestartedPod,
    RestartRun,
    RestartStatus,
    Retry,
)
from llama_operator.api.units import format_duration, parse_duration, parse_quantity

__all__ = [
    "API_VERSION",
    "GROUP",
    "KIND",
    "PLURAL",
    "SHORT_NAME",
    "SINGULAR",
    "UNSEEN_STATUS",
    "VERSION",
    "AvoidedNode",
    "Cache",
    "ClaimSource",
    "Condition",
    "Engine",
    "Kv",
    "KvStatus",
    "LastRestart",
    "LlamaDeployment",
    "LlamaDeploymentSpec",
    "LlamaDeploymentStatus",
    "LocalObjectReference",
    "Measurement",
    "Metadata",
    "Model",
    "Numa",
    "PodStatus",
    "Resource",
    "Resources",
    "Restart",
    "RestartRun",
    "RestartStatus",
    "RestartedPod",
    "Retry",
    "Rollout",
    "SecretKeyReference",
    "Server",
    "Thresholds",
    "Toleration",
    "format_duration",
    "parse_claim_source",
    "parse_duration",
    "parse_quantity",
]
