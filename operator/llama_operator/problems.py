"""What keeps a pod from serving, and what to do about it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from llama_operator.api import LlamaDeployment
from llama_operator.names import Manifest
from llama_operator.pods import Pod
from llama_operator.runtime_status import Reading, RuntimeStatus

_IMAGE_REASONS = {
    "ErrImagePull",
    "ErrImageNeverPull",
    "ImagePullBackOff",
    "ImageInspectError",
    "InvalidImageName",
    "RegistryUnavailable",
    "SignatureValidationFailed",
}
_FLEETING = {"ErrImagePull", "RegistryUnavailable"}
"""The kubelet tries these again soon; when they stay they become ImagePullBackOff."""

_CONFIG_REASONS = {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}


LASTING_RESTARTS = 3
"""From here on a container that ends again and again is no matter of chance."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a pod does not serve. Permanent: it stays until someone changes something."""

    reason: str
    message: str
    permanent: bool = False


def pod_problem(resource: LlamaDeployment, pod: Pod, reading: Reading) -> Problem | None:
    """The problem of one pod; None while it serves or is on its way."""
    if pod.ready:
        return None
    if pod.given_up:
        return _failed(pod)
    if pod.terminating:
        return None
    return (
        _not_scheduled(resource, pod)
        or _waiting(pod)
        or _runtime_failed(pod, reading)
        or _ended_before(resource, pod)
    )


def _failed(pod: Pod) -> Problem:
    where = f" on node {pod.node}" if pod.node else ""
    said = pod.manifest.get("status", {}).get("message") or "no message was given"
    return Problem(pod.reason, f"Pod {pod.name}{where} failed: {_sentence(said)}")


def _not_scheduled(resource: LlamaDeployment, pod: Pod) -> Problem | None:
    condition = pod.condition("PodScheduled")
    if condition.get("status") != "False":
        return None
    said = condition.get("message", "")
    problem = f"Pod {pod.name} cannot be scheduled: {_sentence(said)}"
    if "persistentvolumeclaim" in said.lower() and "not found" in said:
        return Problem(
            "PersistentVolumeClaimMissing",
            f"{problem} Create the claim that model.source names, or correct model.source.",
            permanent=True,
        )
    if "unbound immediate persistentvolumeclaims" in said.lower():
        return Problem(
            "PersistentVolumeClaimUnbound",
            f"{problem} Look at the claim that model.source names: it waits for a volume.",
        )
    gpu = resource.spec.resources.gpu_resource_name
    if resource.spec.resources.gpus and gpu in said:
        return Problem(
            "NoFreeGPU",
            f"{problem} Free a {gpu}, add a node that has one, lower replicas, "
            "or set resources.gpus to 0 to compute on the CPU.",
        )
    reason = condition.get("reason") or "Unschedulable"
    return Problem(reason, f"{problem} Make room, or correct what the pod asks for.")


def _waiting(pod: Pod) -> Problem | None:
    waiting = pod.container_status.get("state", {}).get("waiting", {})
    reason, said = waiting.get("reason", ""), waiting.get("message", "")
    if reason in _IMAGE_REASONS:
        return Problem(
            reason,
            f"Pod {pod.name} cannot pull its image {pod.image}: {_sentence(said or reason)} "
            "Correct spec.image or spec.imagePullSecrets.",
            permanent=reason not in _FLEETING,
        )
    if reason in _CONFIG_REASONS:
        return Problem(
            reason,
            f"Pod {pod.name} cannot start its container: {_sentence(said or reason)}",
            permanent=True,
        )
    return None


def _runtime_failed(pod: Pod, reading: Reading) -> Problem | None:
    if not isinstance(reading, RuntimeStatus) or reading.state != "Failed":
        return None
    reason = reading.reason or "RuntimeFailed"
    message = reading.message or f"The runtime failed with {reason}; look at its log."
    return Problem(reason, f"Pod {pod.name}: {_sentence(message)}", permanent=True)


def _ended_before(resource: LlamaDeployment, pod: Pod) -> Problem | None:
    """The container ended and runs or waits for another start."""
    status = pod.container_status
    ended = status.get("state", {}).get("terminated") or status.get("lastState", {}).get(
        "terminated"
    )
    if not ended:
        return None
    if ended.get("reason") == "OOMKilled":
        return Problem(
            "OOMKilled",
            f"Pod {pod.name} needed more than its {resource.spec.resources.memory} of memory: "
            "raise resources.memory, or lower kv.maxSequences or kv.contextPerSequence.",
            permanent=True,
        )
    looping = status.get("state", {}).get("waiting", {}).get("reason") == "CrashLoopBackOff"
    if ended.get("exitCode") == 0 and not looping:
        return None
    reason, said = _termination_message(ended)
    return Problem(
        reason or "CrashLoopBackOff",
        f"Pod {pod.name} ended with exit code {ended.get('exitCode')}: "
        f"{_sentence(said or 'no message was given')} "
        f"See kubectl logs --previous {pod.name}.",
        permanent=looping or status.get("restartCount", 0) >= LASTING_RESTARTS,
    )


def _termination_message(ended: Manifest) -> tuple[str | None, str]:
    """Reason and message of the runtime's own last word."""
    text: str = (ended.get("message") or "").strip()
    try:
        said = json.loads(text)
    except ValueError:
        return None, text
    if not isinstance(said, dict):
        return None, text
    reason = said.get("reason")
    return (reason if isinstance(reason, str) and reason else None), str(said.get("message", ""))


def _sentence(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."
