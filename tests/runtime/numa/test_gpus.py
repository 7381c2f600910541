from __future__ import annotations

from pathlib import Path

import pytest

from llama_runtime.numa.gpus import Gpu, find_gpus, pci_node, sysfs_bus_id
from tests.runtime.numa.conftest import Machine


@pytest.fixture
def devices(nvml: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Start from an environment that says nothing."""
    for name in ("FAKE_NVML_INIT", "FAKE_NVML_COUNT", "FAKE_NVML_DEVICES", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize(
    ("nvml_id", "sysfs_id"),
    [
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("00010000:AF:1F.7", "10000:af:1f.7"),
        ("0000:01:00.0", "0000:01:00.0"),
    ],
)
def test_bus_ids_are_spelled_as_sysfs_spells_them(nvml_id: str, sysfs_id: str) -> None:
    assert sysfs_bus_id(nvml_id) == sysfs_id


@pytest.mark.parametrize(
    ("text", "node"), [("1", 1), ("0", 0), ("-1", None), ("", None), ("x", None)]
)
def test_minus_one_is_unknown_and_never_node_0(
    machine: Machine, text: str, node: int | None
) -> None:
    assert pci_node("0000:3b:00.0", machine(pci={"0000:3b:00.0": text})) == node


def test_a_device_that_sysfs_lacks_is_unknown(machine: Machine) -> None:
    assert pci_node("0000:3b:00.0", machine()) is None


def test_an_image_without_nvml_has_no_gpus(machine: Machine) -> None:
    assert find_gpus(machine(), "libno-such-library.so.1") == ()


def test_a_machine_without_a_driver_has_no_gpus(
    devices: pytest.MonkeyPatch, nvml: Path, machine: Machine
) -> None:
    devices.setenv("FAKE_NVML_INIT", "9")
    assert find_gpus(machine(), str(nvml)) == ()


@pytest.mark.parametrize("call", ["INIT", "COUNT"])
def test_an_nvml_that_fails_may_hide_a_gpu(
    devices: pytest.MonkeyPatch, nvml: Path, machine: Machine, call: str
) -> None:
    devices.setenv(f"FAKE_NVML_{call}", "999")
    [gpu] = find_gpus(machine(), str(nvml))
    assert gpu.node is None
    assert "999" in gpu.bus_id


def test_sysfs_comes_first(devices: pytest.MonkeyPatch, nvml: Path, machine: Machine) -> None:
    devices.setenv("FAKE_NVML_DEVICES", "00000000:3B:00.0=1")
    root = machine(pci={"0000:3b:00.0": "1"})
    assert find_gpus(root, str(nvml)) == (Gpu("0000:3b:00.0", 1),)


@pytest.mark.parametrize(
    ("affinity", "node"),
    [("1", 0), ("2", 1), ("8000000000000000", 63), ("3", None), ("0", None), ("-", None)],
)
def test_nvml_answers_where_sysfs_cannot(
    devices: pytest.MonkeyPatch, nvml: Path, machine: Machine, affinity: str, node: int | None
) -> None:
    devices.setenv("FAKE_NVML_DEVICES", f"00000000:3B:00.0={affinity}")
    root = machine(pci={"0000:3b:00.0": "-1"})
    assert find_gpus(root, str(nvml)) == (Gpu("0000:3b:00.0", node),)


def test_every_gpu_has_its_own_node(
    devices: pytest.MonkeyPatch, nvml: Path, machine: Machine
) -> None:
    devices.setenv("FAKE_NVML_DEVICES", "00000000:3B:00.0=- 00000000:AF:00.0=- !=-")
    root = machine(pci={"0000:3b:00.0": "0", "0000:af:00.0": "1"})
    first, second, lost = find_gpus(root, str(nvml))
    assert (first.node, second.node, lost.node) == (0, 1, None)
    assert "15" in lost.bus_id


@pytest.mark.parametrize("visible", ["1", "1,0", "", "GPU-8f2e"])
def test_cuda_visible_devices_changes_nothing(
    devices: pytest.MonkeyPatch, nvml: Path, machine: Machine, visible: str
) -> None:
    devices.setenv("FAKE_NVML_DEVICES", "00000000:3B:00.0=- 00000000:AF:00.0=-")
    root = machine(pci={"0000:3b:00.0": "0", "0000:af:00.0": "1"})
    devices.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert [gpu.node for gpu in find_gpus(root, str(nvml))] == [0, 1]
