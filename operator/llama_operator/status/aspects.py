"""ModelLoaded, NUMAAligned and GPUOffloaded: what the runtimes found, where it is known."""

from __future__ import annotations

from llama_operator.problems import computes_on_cpu, no_gpu_device
from llama_operator.status.conditions import Finding
from llama_operator.status.look import Look
from llama_operator.status.numa_aligned import numa_aligned
from llama_operator.status.readiness import percent
from llama_operator.status.undecided import all_known, undecided


def aspects(look: Look) -> list[Finding]:
    """The conditions that have something to say."""
    found = (
        _model_loaded(look),
        numa_aligned(look),
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
    return undecided(look, kind) or all_known(
        look, Finding(kind, "True", "Loaded", "Every running pod has loaded the model.")
    )


def _gpu_offloaded(look: Look) -> Finding | None:
    kind = "GPUOffloaded"
    if not look.resource.spec.resources.gpus or not look.resource.spec.engine.gpu_layers:
        return None
    for pod, reading in look.known():
        if computes_on_cpu(look.resource, reading):
            return Finding(kind, "False", "NoGPUDevice", no_gpu_device(pod))
    if (finding := undecided(look, kind)) is not None:
        return finding
    if any(
        reading.engine.devices is None or not reading.model.loaded for _, reading in look.known()
    ):
        return None
    return all_known(look, Finding(kind, "True", "Offloaded", "Every running pod uses its GPU."))
