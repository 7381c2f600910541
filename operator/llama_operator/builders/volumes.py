"""What a pod mounts: the model's claim, the API keys, what the operator asks of it, what it
keeps over a restart of its container, and a place for temporary files."""

from __future__ import annotations

from llama_operator.api import ClaimSource, LlamaDeployment, parse_claim_source
from llama_operator.names import REQUEST_ANNOTATION, Manifest

API_KEY_DIRECTORY = "/etc/llama-runtime/api-keys"
API_KEY_FILE = f"{API_KEY_DIRECTORY}/keys"

REQUEST_VOLUME = "request"
REQUEST_DIRECTORY = "/etc/llama-runtime/pod"
REQUEST_FILE = f"{REQUEST_DIRECTORY}/request"

KEEP_VOLUME = "keep"
KEEP_DIRECTORY = "/var/cache/llama-runtime"


def model_mount_path(source: ClaimSource) -> str:
    """Where the model's claim is mounted, read-only."""
    return f"/models/{source.claim}"


def build_volumes(resource: LlamaDeployment) -> tuple[list[Manifest], list[Manifest]]:
    """The pod's volumes and the container's mounts of them.

    Raises ValueError when the model's source is not a file on a claim.
    """
    source = parse_claim_source(resource.spec.model.source)
    volumes: list[Manifest] = [
        {
            "name": "model",
            "persistentVolumeClaim": {"claimName": source.claim, "readOnly": True},
        },
        {"name": "tmp", "emptyDir": {}},
        {
            "name": REQUEST_VOLUME,
            "downwardAPI": {
                "items": [
                    {
                        "path": "request",
                        "fieldRef": {"fieldPath": f"metadata.annotations['{REQUEST_ANNOTATION}']"},
                    }
                ]
            },
        },
    ]
    mounts: list[Manifest] = [
        {"name": "model", "mountPath": model_mount_path(source), "readOnly": True},
        {"name": "tmp", "mountPath": "/tmp"},
        {"name": REQUEST_VOLUME, "mountPath": REQUEST_DIRECTORY, "readOnly": True},
    ]
    if resource.spec.kv.keep_over_restart:
        # It outlives the container, not the pod.
        volumes.append({"name": KEEP_VOLUME, "emptyDir": {}})
        mounts.append({"name": KEEP_VOLUME, "mountPath": KEEP_DIRECTORY})
    if (keys := resource.spec.server.api_key_secret_ref) is not None:
        volumes.append(
            {
                "name": "api-keys",
                "secret": {
                    "secretName": keys.name,
                    "items": [{"key": keys.key, "path": "keys"}],
                    # Without it the pod starts, lets nobody in and says so; a pod that waits
                    # for a mount says nothing that the operator may read.
                    "optional": True,
                },
            }
        )
        mounts.append({"name": "api-keys", "mountPath": API_KEY_DIRECTORY, "readOnly": True})
    return volumes, mounts
