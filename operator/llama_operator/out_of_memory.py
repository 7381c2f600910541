"""What to say of a container that the kernel killed for its memory: the sum that did not fit. Pure.

The runtime notes the sum in its termination log before it takes the memory, and the kubelet
passes that on, also of a container that was killed.
"""

from __future__ import annotations

import json
from typing import Final

from llama_operator.api import LlamaDeployment
from llama_operator.names import Manifest
from llama_operator.pods import Pod

_PARTS: Final = {
    "weightsBytes": "weights",
    "kvBytes": "KV cache",
    "computeBytes": "compute buffers",
}


def out_of_memory(resource: LlamaDeployment, pod: Pod, ended: Manifest) -> str:
    """One or two sentences. `ended` is the terminated state of the container."""
    limit = resource.spec.resources.memory
    parts = _memory(ended)
    if not parts:
        return (
            f"Pod {pod.name} needed more than its {limit} of memory: "
            "raise resources.memory, or lower kv.maxSequences or kv.contextPerSequence."
        )
    listed = " + ".join(f"{name} {size / 2**30:.2f} GiB" for name, size in parts.items())
    whole = sum(parts.values())
    rest = "" if "compute buffers" in parts else " and the compute buffers"
    return (
        f"Pod {pod.name} needed more than its {limit} of memory: {listed} = "
        f"{whole / 2**30:.2f} GiB{rest}, and the program itself. Raise resources.memory, "
        "or lower kv.maxSequences or kv.contextPerSequence."
    )


def _memory(ended: Manifest) -> dict[str, float]:
    try:
        said = json.loads(ended.get("message") or "")
    except ValueError:
        return {}
    memory = said.get("memory") if isinstance(said, dict) else None
    if not isinstance(memory, dict):
        return {}
    return {
        name: memory[field]
        for field, name in _PARTS.items()
        if isinstance(memory.get(field), int | float) and memory[field] > 0
    }
