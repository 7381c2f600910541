"""What keeps a pod from serving, and what to do about it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from llama_operator.api import LlamaDeployment
from llama_operator.names import Manifest
from llama_operator.out_of_memory import out_of_memory
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
    """The problem of one pod that has a node; None while it serves or is on its way."""
    if pod.ready:
        return _serves_wrongly(resource, pod, reading)
    if pod.given_up:
        return _failed(pod)
    if pod.terminating:
        return None
    return (
        _waiting(pod)
        or _node_not_ready(pod)
        or _runtime_failed(pod, reading)
        or _ended_before(resource, pod)
    )


def _failed(pod: Pod) -> Problem:
    where = f" on node {pod.node}" if pod.node else ""
    said = pod.manifest.get("status", {}).get("message") or "no message was given"
    return Problem(pod.reason, f"Pod {pod.name}{where} failed: {sentence(said)}")


def _serves_wrongly(resource: LlamaDeployment, pod: Pod, reading: Reading) -> Problem | None:
    """The kubelet calls it Ready, and it does not do what was asked for."""
    if not isinstance(reading, RuntimeStatus):
        return None
    if reading.state == "Serving" and reading.reason == "APIKeysUnreadable":
        secret = resource.spec.server.api_key_secret_ref
        where = f"Secret {secret.name}, key {secret.key}" if secret is not None else "its Secret"
        return Problem(
            "APIKeysUnreadable",
            f"Pod {pod.name} lets nobody in: {sentence(reading.message or 'it has no API keys')} "
            f"Create {where}; the pod finds it within two minutes.",
            permanent=True,
        )
    if computes_on_cpu(resource, reading):
        return Problem("NoGPUDevice", no_gpu_device(pod), permanent=True)
    return None


def computes_on_cpu(resource: LlamaDeployment, reading: RuntimeStatus) -> bool:
    """Layers were asked for on a GPU, and the loaded model has none there."""
    devices, layers = reading.engine.devices, reading.engine.gpu_layers
    return bool(
        resource.spec.resources.gpus
        and resource.spec.engine.gpu_layers
        and reading.model.loaded
        and ((devices is not None and set(devices) <= {"CPU"}) or layers == 0)
    )


def no_gpu_device(pod: Pod) -> str:
    """What `computes_on_cpu` means for the user."""
    return (
        f"Pod {pod.name} has a GPU and computes on the CPU: use a runtime image built for this "
        "GPU, or set resources.gpus to 0."
    )


def _node_not_ready(pod: Pod) -> Problem | None:
    """The node controller takes Ready away from the pods of a node that is silent, and leaves
    ContainersReady, which is the kubelet's (pkg/controller/util/node, MarkPodsNotReady)."""
    taken = (
        pod.phase == "Running"
        and pod.condition("Ready").get("status") == "False"
        and pod.condition("ContainersReady").get("status") == "True"
        and not pod.manifest.get("spec", {}).get("readinessGates")
    )
    if not taken:
        return None
    return Problem(
        "NodeNotReady",
        f"Node {pod.node} of pod {pod.name} does not report any more: look at kubectl describe "
        f"node {pod.node}. Kubernetes deletes the pod after five minutes of that.",
    )


def _waiting(pod: Pod) -> Problem | None:
    waiting = pod.container_status.get("state", {}).get("waiting", {})
    reason, said = waiting.get("reason", ""), waiting.get("message", "")
    if reason in _IMAGE_REASONS:
        return Problem(
            reason,
            f"Pod {pod.name} cannot pull its image {pod.image}: {sentence(said or reason)} "
            "Correct spec.image or spec.imagePullSecrets.",
            permanent=reason not in _FLEETING,
        )
    if reason in _CONFIG_REASONS:
        return Problem(
            reason,
            f"Pod {pod.name} cannot start its container: {sentence(said or reason)}",
            permanent=True,
        )
    return None


def _runtime_failed(pod: Pod, reading: Reading) -> Problem | None:
    if not isinstance(reading, RuntimeStatus) or reading.state != "Failed":
        return None
    reason = reading.reason or "RuntimeFailed"
    message = reading.message or f"The runtime failed with {reason}; look at its log."
    return Problem(reason, f"Pod {pod.name}: {sentence(message)}", permanent=True)


def _ended_before(resource: LlamaDeployment, pod: Pod) -> Problem | None:
    """The container ended and runs or waits for another start."""
    status = pod.container_status
    ended = status.get("state", {}).get("terminated") or status.get("lastState", {}).get(
        "terminated"
    )
    if not ended:
        return None
    if ended.get("reason") == "OOMKilled":
        return Problem("OOMKilled", out_of_memory(resource, pod, ended), permanent=True)
    looping = status.get("state", {}).get("waiting", {}).get("reason") == "CrashLoopBackOff"
    if ended.get("exitCode") == 0 and not looping:
        return None
    reason, said = _termination_message(ended)
    return Problem(
        reason or "CrashLoopBackOff",
        f"Pod {pod.name} ended with exit code {ended.get('exitCode')}: "
        f"{sentence(said or 'no message was given')} "
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


def sentence(text: str) -> str:
    """The text with a full stop, unless it has one."""
    text = text.strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."
