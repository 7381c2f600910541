"""The runtime's flags; docs/architecture.md lists them."""

from __future__ import annotations

from llama_operator.api import LlamaDeployment, parse_claim_source, parse_duration, parse_quantity
from llama_operator.builders.volumes import (
    API_KEY_FILE,
    KEEP_DIRECTORY,
    REQUEST_FILE,
    model_mount_path,
)

HTTP_PORT = 8080
MANAGEMENT_PORT = 8081
DRAIN_DELAY_SECONDS = 10
"""For a draining pod to leave its Service's endpoints. A pod that restarts in place is not
deleted: it leaves once three readiness probes have failed, which takes 6 s, and then each node's
proxy has to hear of it. Measured with 5: two requests of 194 were refused."""


def build_arguments(resource: LlamaDeployment) -> list[str]:
    """One `--flag=value` for every setting, so that `kubectl describe pod` shows all of it.

    Raises ValueError when the model's source is not a file on a claim.
    """
    spec = resource.spec
    source = parse_claim_source(spec.model.source)
    flags: dict[str, object] = {
        "model-path": f"{model_mount_path(source)}/{source.path}",
        "model-alias": model_alias(resource),
        "model-sha256": spec.model.sha256,
        "kv-max-sequences": spec.kv.max_sequences,
        "kv-context-per-sequence": spec.kv.context_per_sequence,
        "kv-layout": spec.kv.layout,
        "kv-total-context": spec.kv.total_context,
        "kv-host-cache": int(parse_quantity(spec.kv.host_cache)),
        "kv-type-k": spec.kv.type_k,
        "kv-type-v": spec.kv.type_v,
        "engine-gpu-layers": spec.engine.gpu_layers,
        "engine-batch-size": spec.engine.batch_size,
        "engine-micro-batch-size": spec.engine.micro_batch_size,
        "engine-flash-attention": spec.engine.flash_attention,
        "engine-threads": spec.engine.threads,
        "engine-split-mode": spec.engine.split_mode,
        "engine-tensor-split": _tensor_split(spec.engine.tensor_split),
        "server-queue-limit": spec.server.queue_limit,
        "server-api-key-file": API_KEY_FILE if spec.server.api_key_secret_ref else None,
        "numa-policy": spec.numa.policy,
        "kv-keep-directory": KEEP_DIRECTORY if spec.kv.keep_over_restart else None,
        "request-file": REQUEST_FILE,
        "drain-timeout": parse_duration(spec.rollout.drain_timeout),
        "drain-delay": DRAIN_DELAY_SECONDS,
        "host": "0.0.0.0",
        "port": HTTP_PORT,
        "management-port": MANAGEMENT_PORT,
        "termination-log": "/dev/termination-log",
    }
    arguments = [
        f"--{flag}={_literal(str(value))}" for flag, value in flags.items() if value is not None
    ]
    mmap = "--no-engine-mmap" if spec.numa.policy == "Required" else "--engine-mmap"
    keep = "--kv-keep-over-restart" if spec.kv.keep_over_restart else "--no-kv-keep-over-restart"
    return [*arguments, mmap, keep]


def model_alias(resource: LlamaDeployment) -> str:
    """The model's id at /v1/models."""
    return resource.spec.model.alias or resource.metadata.name


def _tensor_split(shares: tuple[float, ...] | None) -> str | None:
    return ",".join(f"{share:g}" for share in shares) if shares else None


def _literal(value: str) -> str:
    """Kubernetes expands `$(NAME)` in arguments; `$$(` stands for `$(`."""
    return value.replace("$(", "$$(")
