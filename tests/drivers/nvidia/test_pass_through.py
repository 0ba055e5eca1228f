from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dray.drivers.contract import Health
from dray.drivers.nvidia import nvidia_driver
from dray.drivers.nvidia.names import vfio_uuid
from dray.errors import UnavailableError
from dray.hardware.host_root import Place
from dray.hardware.nvml.recorded_session import RecordedSession
from tests.drivers.nvidia.cards import Watched, watched

_REGION = "0x{:016x} 0x{:016x} 0x{:016x}\n"


def _move(host: Watched, address: str) -> None:
    """The card goes to vfio-pci, as a claim would have it."""
    link = host.machine.host.root / f"sys/bus/pci/devices/{address}/driver"
    link.unlink()
    uuid = next(
        card.uuid for card in host.machine.cards.cards if address[5:7].upper() in card.answers["pci"]["busId"]
    )
    host.machine.cards.take_away(uuid)


def test_a_card_for_vms_is_published_as_nvidias_driver_does(tmp_path: Path) -> None:
    host = watched(tmp_path, "eight-h100", pass_through=True)
    device = host.named("gpu-vfio-0")
    assert device.attributes == {
        "type": "vfio",
        "uuid": vfio_uuid("0000:1b:00.0"),
        "deviceID": "0x2330",
        "vendorID": "0x10de",
        "productName": "NVIDIA H100 80GB HBM3",
        "numa": 0,
        "iommuFDEnabled": False,
        "resource.kubernetes.io/pciBusID": "0000:1b:00.0",
    }
    assert (device.resource, device.paths, device.addresses) == ("", (), ("0000:1b:00.0",))
    assert (device.iommu_group, device.health) == (10, Health.HEALTHY)


def test_both_devices_of_a_card_draw_on_one_counter(tmp_path: Path) -> None:
    host = watched(tmp_path, "eight-h100", pass_through=True)
    found = host.look()
    assert len(found.devices) == 16
    assert [counters.name for counters in found.counters][:2] == ["gpu-2-counter-set", "gpu-3-counter-set"]
    assert host.named("gpu-2").consumes == host.named("gpu-vfio-0").consumes
    assert [str(one.value) for one in found.counters[0].counters.values()] == ["1"]


def test_a_card_that_vfio_has_stays_for_vms_alone(tmp_path: Path) -> None:
    host = watched(tmp_path, "eight-h100", pass_through=True)
    _move(host, "0000:1b:00.0")
    found = host.look()
    assert "gpu-2" not in host.names
    device = host.named("gpu-vfio-0")
    assert (device.consumes, device.health) == ((), Health.HEALTHY)
    assert device.attributes["productName"] == "NVIDIA 2330"
    assert len(found.counters) == 7
    assert found.problems == ()


def test_a_card_without_an_iommu_is_told(tmp_path: Path) -> None:
    host = watched(tmp_path, "h200", pass_through=True)
    assert host.named("gpu-0").health is Health.HEALTHY
    device = host.named("gpu-vfio-0")
    assert device.health is Health.UNHEALTHY
    assert "no IOMMU group" in device.reason


def test_a_card_that_somebody_divided_is_not_for_vms(tmp_path: Path) -> None:
    host = watched(tmp_path, "a100-mig", pass_through=True)
    assert [name for name in host.names if "vfio" in name] == ["gpu-vfio-1"]


def test_with_parts_a_vm_takes_the_whole_card(tmp_path: Path) -> None:
    host = watched(tmp_path, "eight-h100", pass_through=True, dynamic_mig=True)
    assert host.named("gpu-vfio-0").consumes == host.named("gpu-2").consumes
    assert "memory-slice-7" in host.named("gpu-vfio-0").consumes[0].counters


def test_what_a_vm_must_map_is_rounded_up(tmp_path: Path) -> None:
    host = watched(tmp_path, "eight-h100", pass_through=True)
    text = (
        _REGION.format(0x1000000, 0x1FFFFFF, 0x40200)  # 32 bits
        + _REGION.format(0x4000000000, 0x5FFFFFFFFF, 0x14220C)
        + _REGION.format(0, 0, 0)
        + _REGION.format(0x6000000000, 0x6001FFFFFF, 0x14220C)
        + "nonsense\n"
    )
    path = "/sys/bus/pci/devices/0000:1b:00.0/resource"
    host.machine.host.file((host.machine.host.root / path[1:]).resolve(), text)
    host.look()
    capacity = host.named("gpu-vfio-0").capacity["addressableMemory"]
    assert str(capacity.value) == "256Gi"
    assert host.named("gpu-vfio-1").capacity == {}


def test_functions_of_one_group_go_together(tmp_path: Path) -> None:
    host = watched(tmp_path, "eight-h100", pass_through=True)
    host.machine.host.pci("0000:1b:00.1", vendor="10de", device="10ff", class_code="040300", iommu_group=10)
    host.look()
    assert "pci:0000:1b:00.1" in host.named("gpu-vfio-0").hardware
    assert "pci:0000:1b:00.1" not in host.named("gpu-2").hardware
    assert host.named("gpu-vfio-0").health is Health.HEALTHY


def test_a_neighbour_that_the_host_uses_is_in_the_way(tmp_path: Path) -> None:
    host = watched(tmp_path, "eight-h100", pass_through=True)
    host.machine.host.pci(
        "0000:1b:00.1",
        driver="snd_hda_intel",
        vendor="10de",
        device="10ff",
        class_code="040300",
        iommu_group=10,
    )
    host.look()
    device = host.named("gpu-vfio-0")
    assert device.reason.startswith("IOMMU group 10: 0000:1b:00.1 is bound to snd_hda_intel")
    assert host.named("gpu-2").health is Health.HEALTHY


def test_cards_for_vms_need_no_driver(tmp_path: Path) -> None:
    @contextmanager
    def gone(root: Place) -> Iterator[RecordedSession]:
        raise UnavailableError("the kernel module nvidia is not loaded")
        yield

    host = watched(tmp_path, "eight-h100", pass_through=True)
    driver = nvidia_driver(host.driver.config, host.clock, open_session=gone)
    found = driver.discover(host.root, host.devices)
    healthy = [device.name for device in found.devices if device.health is Health.HEALTHY]
    assert healthy == [f"gpu-vfio-{index}" for index in range(8)]
    assert len(found.devices) == 16
