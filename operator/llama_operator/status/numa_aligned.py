"""NUMAAligned: whether the pods are where `numa.policy` wants them, and what keeps them from it."""

from __future__ import annotations

from llama_operator.alignment import NOT_ALIGNED, placement
from llama_operator.api import parse_quantity
from llama_operator.kubelet_settings import advice
from llama_operator.names import CONTAINER
from llama_operator.pods import Pod
from llama_operator.runtime_status import MISALIGNED, NumaReading, RuntimeStatus
from llama_operator.status.conditions import Finding, carry, find
from llama_operator.status.look import Look
from llama_operator.status.undecided import all_known, undecided

KIND = "NUMAAligned"


def numa_aligned(look: Look) -> Finding | None:
    """None while nothing is known, and with policy None."""
    if look.resource.spec.numa.policy == "None":
        return None
    return _not_pinned(look) or _misaligned(look) or _pending(look) or _aligned(look)


def _not_pinned(look: Look) -> Finding | None:
    """The kubelet cannot pin such pods at all."""
    for pod in look.fleet.wanted():
        qos = pod.manifest.get("status", {}).get("qosClass")
        if qos is not None and qos != "Guaranteed":
            return Finding(KIND, "False", "NotGuaranteed", _not_guaranteed(pod, qos))
    cpu = look.resource.spec.resources.cpu
    if parse_quantity(cpu) % 1:
        why = f"resources.cpu is {cpu}: the kubelet pins whole CPUs only; give a whole number."
        return Finding(KIND, "False", "FractionalCPU", why)
    return None


def _not_guaranteed(pod: Pod, qos: str) -> str:
    spec = pod.manifest.get("spec", {})
    added = sorted(
        item["name"]
        for item in (*spec.get("containers", []), *spec.get("initContainers", []))
        if item.get("name") != CONTAINER
    )
    what = f"added the container {', '.join(added)}" if added else "changed its resources"
    return (
        f"Pod {pod.name} is {qos}, so the kubelet does not pin it: something {what} after the "
        "operator made it; exempt the pod from it."
    )


def _misaligned(look: Look) -> Finding | None:
    for pod in look.fleet.wanted():
        numa = placement(pod, look.readings.get(pod.uid))
        if numa is not None and numa.verdict is not None and numa.verdict in MISALIGNED:
            return Finding(KIND, "False", numa.verdict, _sentence(look, pod, numa))
    before = find(look.previous.conditions, KIND)
    if before is not None and before.status == "False" and _tries_again(look):
        return carry(look.previous.conditions, KIND)
    return None


def _sentence(look: Look, pod: Pod, numa: NumaReading) -> str:
    said = numa.message or f"The runtime's verdict is {numa.verdict}."
    cpus = int(parse_quantity(look.resource.spec.resources.cpu))
    return f"Pod {pod.name}: {said} {advice(pod.node, numa, cpus)}".rstrip()


def _tries_again(look: Look) -> bool:
    """Some pod was misaligned, and its replacement has not found out about itself yet."""
    if look.previous.observed_generation != look.resource.metadata.generation:
        return False
    retries = {row.name: row.retry for row in look.previous.pods if row.retry is not None}
    misaligned = {name for name, retry in retries.items() if retry.reason == NOT_ALIGNED}
    wanted = look.fleet.wanted()
    return bool(misaligned - {pod.name for pod in wanted}) or any(
        (pod.attempt or pod.name in misaligned)
        and not pod.ready
        and placement(pod, look.readings.get(pod.uid)) is None
        for pod in wanted
    )


def _pending(look: Look) -> Finding | None:
    """What stands while a runtime is silent, was not asked yet or is still loading."""
    if any(
        reading.numa.verdict is None and reading.state in ("Starting", "Loading")
        for _, reading in look.known()
    ):
        return carry(look.previous.conditions, KIND) or Finding(
            KIND, "Unknown", "Loading", "Where memory lies is known when the model is loaded."
        )
    return undecided(look, KIND)


def _aligned(look: Look) -> Finding | None:
    known: list[tuple[Pod, RuntimeStatus]] = look.known()
    for pod, reading in known:
        if reading.numa.verdict in (None, "Unknown"):
            message = reading.numa.message or "The runtime could not find out."
            return Finding(KIND, "Unknown", "Unknown", f"Pod {pod.name}: {message}")
    if {reading.numa.verdict for _, reading in known} == {"SingleNode"}:
        return Finding(KIND, "True", "SingleNode", "The nodes have one NUMA node each.")
    aligned = "CPUs, memory and GPUs of every running pod are on one NUMA node."
    return all_known(look, Finding(KIND, "True", "Aligned", aligned))
