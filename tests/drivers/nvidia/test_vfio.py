"""Cards for VMs on a recording: no card of a real machine is rebound by these tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dray.drivers.contract import Asked
from dray.drivers.nvidia.parameters import API_VERSION, VfioDeviceConfig
from dray.drivers.nvidia.vfio import read_nodes, to_pass, to_return
from dray.errors import ConflictError, HardwareError, InvalidError
from dray.hardware.change import BindDriver, SetPersistence, SetUnbindLock
from dray.hardware.change.access import Limits
from dray.hardware.change.executor import AuditEntry, Executor
from tests.drivers.nvidia.cards import Watched, watched

ADDRESS = "0000:07:00.0"
CARD = f"/proc/driver/nvidia/gpus/{ADDRESS}"
NAME = "gpu-vfio-0"


@pytest.fixture
def gpus(tmp_path: Path) -> Iterator[Watched]:
    """The first of two A100, no longer divided; with the lock that drivers of hosts for VMs have."""
    root = tmp_path / "root"
    found = watched(root, "a100-mig", pass_through=True)
    found.machine.host.driver("vfio-pci")
    found.machine.host.file(f"{CARD}/unbindLock", "0\n")
    found.machine.cards.set_mig(found.machine.cards.cards[0].uuid, on=False)
    found.look()
    with found.machine.host.active():
        yield found
    found.driver.monitor.close()


@pytest.fixture
def executor(gpus: Watched) -> Executor:
    def settle(entry: AuditEntry) -> None:
        gpus.machine.host.settle()

    limits = Limits(effect=0.5, node=0.5)
    return Executor(gpus.root.path, settle, limits=limits, isolate=False, nvml=gpus.machine.cards.open)


def driver_of(gpus: Watched) -> str:
    return (gpus.root.path / f"sys/bus/pci/devices/{ADDRESS}/driver").readlink().name


def claim(gpus: Watched, **iommu: Any) -> Asked:
    parameters = {"apiVersion": API_VERSION, "kind": "VfioDeviceConfig", "iommu": iommu}
    return Asked("uid", "claim/vm", (gpus.named(NAME),), (parameters,) if iommu else ())


def paths(gpus: Watched, asked: Asked) -> list[str]:
    finish = gpus.driver.prepare_claim(asked).finish
    assert finish is not None
    edits = finish(gpus.root)
    assert not edits.mounts  # a VM brings its own driver
    return [node.container_path for node in edits.device_nodes]


def test_the_sequence(gpus: Watched) -> None:
    device = gpus.named(NAME)
    assert to_pass(device) == (
        SetPersistence(ADDRESS, on=False),
        SetUnbindLock(ADDRESS),
        BindDriver(ADDRESS, "vfio-pci"),
    )
    assert to_return(device) == (BindDriver(ADDRESS, "nvidia", override=""), SetPersistence(ADDRESS, on=True))
    with pytest.raises(InvalidError, match="is no PCI function"):
        to_pass(replace(device, hardware=()))


def test_a_card_goes_to_a_vm_and_comes_back(gpus: Watched, executor: Executor) -> None:
    gpus.machine.host.file("/run/nvidia-persistenced/socket", "")
    gpus.machine.cards.cards[0].answers["persistenceMode"] = 1
    asked = claim(gpus)
    prepared = gpus.driver.prepare_claim(asked)
    assert prepared.edits.env == (("NVIDIA_VISIBLE_DEVICES", "void"),)
    executor.apply_all(prepared.changes)
    assert driver_of(gpus) == "vfio-pci"
    assert gpus.machine.cards.cards[0].answers["persistenceMode"] == 0
    assert paths(gpus, asked) == ["/dev/vfio/10"]
    executor.apply_all(gpus.driver.release_claim(asked))
    assert driver_of(gpus) == "nvidia"
    assert (gpus.root.path / f"sys/bus/pci/devices/{ADDRESS}/driver_override").read_text().strip() == "(null)"
    assert gpus.machine.cards.cards[0].answers["persistenceMode"] == 1


def test_twice_and_released_though_never_prepared(gpus: Watched, executor: Executor) -> None:
    asked = claim(gpus)
    assert not any(one.changed for one in executor.apply_all(gpus.driver.release_claim(asked)))
    executor.apply_all(gpus.driver.prepare_claim(asked).changes)
    assert not any(one.changed for one in executor.apply_all(gpus.driver.prepare_claim(asked).changes))


def test_a_failure_gives_the_card_back(gpus: Watched, executor: Executor) -> None:
    host = gpus.machine.host
    host.file("/run/nvidia-persistenced/socket", "")
    gpus.machine.cards.cards[0].answers["persistenceMode"] = 1
    host.ignore_writes("*/vfio-pci/bind")
    with pytest.raises(HardwareError, match="vfio-pci did not take it"):
        executor.apply_all(to_pass(gpus.named(NAME)))
    assert driver_of(gpus) == "nvidia"
    assert gpus.machine.cards.cards[0].answers["persistenceMode"] == 1
    assert (gpus.root.path / CARD.lstrip("/") / "unbindLock").read_text().strip() == "0"


def test_a_card_in_use_stays_and_the_process_is_named(gpus: Watched, executor: Executor) -> None:
    host = gpus.machine.host
    host.file("/proc/77/comm", "python3\n")
    host.link("/proc/77/fd/9", "/dev/nvidia0")
    with pytest.raises(ConflictError, match=r"in use by process 77 \(python3\)"):
        executor.apply_all(to_pass(gpus.named(NAME)))
    assert driver_of(gpus) == "nvidia"


def test_which_nodes_a_vm_gets(gpus: Watched, executor: Executor) -> None:
    executor.apply_all(to_pass(gpus.named(NAME)))
    assert paths(gpus, claim(gpus, enableAPIDevice=True)) == ["/dev/vfio/10", "/dev/vfio/vfio"]
    assert paths(gpus, claim(gpus, backendPolicy="PreferIommuFD")) == ["/dev/vfio/10"]  # the host has none
    gpus.machine.host.char_device("/dev/iommu", 10, 127)
    own = min((gpus.root.path / f"sys/bus/pci/devices/{ADDRESS}/vfio-dev").iterdir()).name
    if not (gpus.root.path / "dev/vfio/devices" / own).exists():
        gpus.machine.host.char_device(f"/dev/vfio/devices/{own}", 511, 0)
    assert paths(gpus, claim(gpus, backendPolicy="PreferIommuFD")) == [f"/dev/vfio/devices/{own}"]
    both = claim(gpus, backendPolicy="PreferIommuFD", enableAPIDevice=True)
    assert paths(gpus, both) == [f"/dev/vfio/devices/{own}", "/dev/iommu"]
    assert paths(gpus, claim(gpus, backendPolicy="LegacyOnly")) == ["/dev/vfio/10"]


def test_nodes_that_are_not_there(gpus: Watched) -> None:
    with pytest.raises(HardwareError, match=r"/dev/vfio/10 is not there: does vfio-pci have it\?"):
        read_nodes(gpus.root, gpus.named(NAME), VfioDeviceConfig())
    (gpus.root.path / f"sys/bus/pci/devices/{ADDRESS}/iommu_group").unlink()
    with pytest.raises(HardwareError, match="no IOMMU group"):
        read_nodes(gpus.root, gpus.named(NAME), VfioDeviceConfig())
