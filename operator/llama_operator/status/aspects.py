"""ModelLoaded, NUMAAligned and GPUOffloaded: what the runtimes found, where it is known."""

from __future__ import annotations

from llama_operator.api import parse_quantity
from llama_operator.pods import Pod
from llama_operator.status.conditions import Finding, carry
from llama_operator.status.look import Look
from llama_operator.status.readiness import percent


def aspects(look: Look) -> list[Finding]:
    """The conditions that have something to say."""
    found = (
        _model_loaded(look),
        _numa_aligned(look),
        _gpu_offloaded(look),
    )
    return [finding for finding in found if finding is not None]


def _model_loaded(look: Look) -> Finding | None:
    kind = "ModelLoaded"
    for pod, reading in look.known():
        if reading.state == "Failed" and not reading.model.loaded:
            message = reading.message or "The runtime gave no message; look at its log."
            return Finding(kind, "False", reading.reason or "Failed", f"Pod {pod.name}: {message}")
    for pod, reading in look.known():
        if not reading.model.loaded:
            message = f"Pod {pod.name} loads the model{percent(reading)}."
            return Finding(kind, "False", reading.state, message)
    return _undecided(look, kind) or _all_known(
        look, Finding(kind, "True", "Loaded", "Every running pod has loaded the model.")
    )


def _numa_aligned(look: Look) -> Finding | None:
    kind = "NUMAAligned"
    policy = look.resource.spec.numa.policy
    if policy == "None":
        return None
    for pod in look.fleet.wanted():
        qos = pod.manifest.get("status", {}).get("qosClass")
        if qos is not None and qos != "Guaranteed":
            return Finding(kind, "False", "NotGuaranteed", _not_guaranteed(pod, qos))
    cpu = look.resource.spec.resources.cpu
    if parse_quantity(cpu) % 1:
        return Finding(
            kind,
            "False",
            "FractionalCPU",
            f"resources.cpu is {cpu}: the kubelet pins whole CPUs only; give a whole number.",
        )
    for pod, reading in look.known():
        verdict = reading.numa.verdict
        if verdict not in (None, "Aligned", "SingleNode", "Unknown"):
            message = reading.numa.message or f"The runtime's verdict is {verdict}."
            return Finding(kind, "False", verdict, f"Pod {pod.name}: {message}")
    if (undecided := _undecided(look, kind)) is not None:
        return undecided
    for pod, reading in look.known():
        if reading.numa.verdict in (None, "Unknown"):
            message = reading.numa.message or "The runtime could not find out."
            return Finding(kind, "Unknown", "Unknown", f"Pod {pod.name}: {message}")
    verdicts = {reading.numa.verdict for _, reading in look.known()}
    if verdicts == {"SingleNode"}:
        return Finding(kind, "True", "SingleNode", "The nodes have one NUMA node each.")
    aligned = "CPUs, memory and GPUs of every running pod are on one NUMA node."
    return _all_known(look, Finding(kind, "True", "Aligned", aligned))


def _not_guaranteed(pod: Pod, qos: str) -> str:
    return (
        f"Pod {pod.name} is {qos}, so the kubelet does not pin it: something added a container "
        "or changed its resources after the operator made it; exempt the pod from it."
    )


def _gpu_offloaded(look: Look) -> Finding | None:
    kind = "GPUOffloaded"
    if not look.resource.spec.resources.gpus or not look.resource.spec.engine.gpu_layers:
        return None
    for pod, reading in look.known():
        devices = reading.engine.devices
        if reading.model.loaded and devices is not None and set(devices) <= {"CPU"}:
            return Finding(
                kind,
                "False",
                "NoGPUDevice",
                f"Pod {pod.name} has a GPU and computes on the CPU: "
                "use a runtime image built for this GPU, or set resources.gpus to 0.",
            )
    if (undecided := _undecided(look, kind)) is not None:
        return undecided
    if any(
        reading.engine.devices is None or not reading.model.loaded for _, reading in look.known()
    ):
        return None
    return _all_known(look, Finding(kind, "True", "Offloaded", "Every running pod uses its GPU."))


def _undecided(look: Look, kind: str) -> Finding | None:
    """What to say while a runtime is silent or was not asked yet."""
    if look.unasked():
        return carry(look.previous.conditions, kind)
    if silent := look.silent():
        names = ", ".join(pod.name for pod in silent)
        message = f"No answer from {names} at :8081/status; look at the pod's log."
        return Finding(kind, "Unknown", "NoAnswer", message)
    return None


def _all_known(look: Look, finding: Finding) -> Finding | None:
    return finding if look.known() and not look.unasked() else None
