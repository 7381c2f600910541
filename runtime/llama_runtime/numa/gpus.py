"""Which NUMA node each of this container's GPUs hangs on.

A GPU is known by its PCI bus id. Its position in CUDA_VISIBLE_DEVICES says nothing:
that list is renumbered, may hold UUIDs, and CUDA's order is not the bus's.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path

NVML_LIBRARY = "libnvidia-ml.so.1"
NVML_SUCCESS = 0
NVML_ERROR_DRIVER_NOT_LOADED = 9
NVML_AFFINITY_SCOPE_NODE = 0
AFFINITY_WORDS = 16
BITS_PER_WORD = 8 * ctypes.sizeof(ctypes.c_ulong)


@dataclass(frozen=True)
class Gpu:
    """``bus_id`` as sysfs spells it, or what went wrong; ``node`` None when unknown."""

    bus_id: str
    node: int | None


class PciInfo(ctypes.Structure):
    """``nvmlPciInfo_t`` as nvmlDeviceGetPciInfo_v3 fills it (nvml.h)."""

    _fields_ = (
        ("bus_id_legacy", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("pci_device_id", ctypes.c_uint),
        ("pci_subsystem_id", ctypes.c_uint),
        ("bus_id", ctypes.c_char * 32),
    )


def find_gpus(root: Path = Path("/"), library: str = NVML_LIBRARY) -> tuple[Gpu, ...]:
    """The GPUs this container sees, in NVML's order (by bus id). Empty without NVML or
    without a driver, which is an image or a pod without GPUs. When NVML is there and
    fails otherwise, the answer is one GPU of unknown node: there may be one."""
    try:
        nvml = ctypes.CDLL(library)
    except OSError:
        return ()
    started = nvml.nvmlInit_v2()
    if started == NVML_ERROR_DRIVER_NOT_LOADED:
        return ()
    if started != NVML_SUCCESS:
        return (Gpu(f"nvmlInit_v2 failed with {started}", None),)
    try:
        return ask_nvml(nvml, root)
    finally:
        nvml.nvmlShutdown()


def ask_nvml(nvml: ctypes.CDLL, root: Path) -> tuple[Gpu, ...]:
    count = ctypes.c_uint()
    code = nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    if code != NVML_SUCCESS:
        return (Gpu(f"nvmlDeviceGetCount_v2 failed with {code}", None),)
    return tuple(ask_device(nvml, index, root) for index in range(count.value))


def ask_device(nvml: ctypes.CDLL, index: int, root: Path) -> Gpu:
    device, info = ctypes.c_void_p(), PciInfo()
    code = nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(device))
    if code != NVML_SUCCESS:
        return Gpu(f"GPU {index}: nvmlDeviceGetHandleByIndex_v2 failed with {code}", None)
    code = nvml.nvmlDeviceGetPciInfo_v3(device, ctypes.byref(info))
    if code != NVML_SUCCESS:
        return Gpu(f"GPU {index}: nvmlDeviceGetPciInfo_v3 failed with {code}", None)
    bus_id = sysfs_bus_id(info.bus_id.decode())
    node = pci_node(bus_id, root)
    return Gpu(bus_id, memory_affinity(nvml, device) if node is None else node)


def sysfs_bus_id(bus_id: str) -> str:
    """NVML's ``00000000:3B:00.0`` as sysfs's ``0000:3b:00.0``."""
    domain, _, rest = bus_id.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


def pci_node(bus_id: str, root: Path = Path("/")) -> int | None:
    """``numa_node`` of a PCI device. -1, usual in virtual machines, is unknown: None."""
    try:
        node = int((root / "sys/bus/pci/devices" / bus_id / "numa_node").read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def memory_affinity(nvml: ctypes.CDLL, device: ctypes.c_void_p) -> int | None:
    """NVML's idea of the node. It answers with the nearest ancestor's nodes when it does
    not know better: several nodes are no answer, and so is an old driver's error."""
    words = (ctypes.c_ulong * AFFINITY_WORDS)()
    try:
        ask = nvml.nvmlDeviceGetMemoryAffinity
    except AttributeError:
        return None
    if ask(device, ctypes.c_uint(AFFINITY_WORDS), words, NVML_AFFINITY_SCOPE_NODE) != NVML_SUCCESS:
        return None
    mask = sum(word << (BITS_PER_WORD * position) for position, word in enumerate(words))
    return mask.bit_length() - 1 if mask.bit_count() == 1 else None
