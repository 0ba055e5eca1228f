from __future__ import annotations

from pathlib import Path

import pytest

from dray.drivers.contract import Device, Discovery, Health
from dray.drivers.pci import PciDriver
from dray.drivers.pci.config import PciConfig, PciSelector
from dray.hardware.host_root import HostRoot
from dray.testing.host import Host, PciFunction

GPU = PciSelector("nvidia.com/GPU", id="10DE:2330")
SOUND = PciSelector("nvidia.com/sound", id="10de:22ba")


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def add(
    host: Host, address: str, group: int | None, *, driver: str = "vfio-pci", device: str = "2330"
) -> PciFunction:
    return host.pci(address, vendor="10de", device=device, driver=driver, iommu_group=group, numa_node=0)


def find(host: Host, *selectors: PciSelector, everything: bool = False) -> Discovery:
    return PciDriver(PciConfig(selectors, everything)).discover(HostRoot(host.root))


def look(host: Host, *selectors: PciSelector) -> dict[str, Device]:
    return {device.id: device for device in find(host, *selectors).devices}


def test_one_device(host: Host) -> None:
    host.pci_bridge("0000:00:04.0", bus=5)
    add(host, "0000:05:00.0", 12)
    add(host, "0000:06:00.0", 13, device="1eb8")
    assert find(host, GPU).devices == (
        Device(
            "12",
            "pci",
            "nvidia.com/GPU",
            Health.HEALTHY,
            label="0000:05:00.0",
            numa_node=0,
            iommu_group=12,
            pcie_root="pci0000:00",
            attributes={
                "address": "0000:05:00.0",
                "class": "000000",
                "device": "2330",
                "driver": "vfio-pci",
                "vendor": "10de",
            },
            paths=("/dev/vfio/vfio", "/dev/vfio/12"),
            watch=("/dev/vfio/12",),
            addresses=("0000:05:00.0",),
        ),
    )


def test_several_selectors_share_a_resource_and_the_last_of_equal_ones_wins(host: Host) -> None:
    add(host, "0000:05:00.0", 12)
    add(host, "0000:06:00.0", 13, device="22ba")
    same = PciSelector("nvidia.com/GPU", id="10de:22ba")
    assert {one.resource for one in look(host, GPU, SOUND, same).values()} == {"nvidia.com/GPU"}
    assert look(host, same, SOUND)["13"].resource == "nvidia.com/sound"


def test_an_address_beats_a_group_and_a_group_an_id(host: Host) -> None:
    for index in range(3):
        add(host, f"0000:05:0{index}.0", 12 + index)
    found = look(
        host,
        PciSelector("x/address", address="0000:05:01.0"),
        PciSelector("x/group", iommu_group=13),
        PciSelector("x/group", iommu_group=14),
        GPU,
    )
    assert {name: device.resource for name, device in found.items()} == {
        "12": "nvidia.com/GPU",
        "13": "x/address",
        "14": "x/group",
    }


def test_a_function_that_the_host_uses_is_the_hosts(host: Host) -> None:
    add(host, "0000:05:00.0", 12, driver="nouveau")
    assert find(host, GPU).devices == ()


def test_a_bridge_without_driver_is_no_device(host: Host) -> None:
    host.pci_bridge("0000:00:04.0", bus=5, driver="", iommu_group=4)
    assert find(host, PciSelector("x/y", id="1b36:000c")).devices == ()


def test_unbound_is_unhealthy_and_bound_again_healthy(host: Host) -> None:
    gpu = add(host, "0000:05:00.0", 12)
    add(host, "0000:06:00.0", 13)
    gpu.unbind()
    found = look(host, GPU)
    assert (found["12"].health, found["13"].health) == (Health.UNHEALTHY, Health.HEALTHY)
    assert found["12"].reason == "0000:05:00.0 has no driver: bind it to vfio-pci"
    gpu.bind("vfio-pci")
    assert look(host, GPU)["12"].health is Health.HEALTHY


def test_functions_in_one_group_are_one_device(host: Host) -> None:
    """Upstream lists the group twice, and the kubelet sees it once."""
    for function in (3, 1, 2):
        add(host, f"0000:05:00.{function}", 12)
    (device,) = find(host, GPU).devices
    assert (device.id, device.addresses) == ("12", ("0000:05:00.1",))
    assert device.attributes["functions"] == "0000:05:00.1,0000:05:00.2,0000:05:00.3"
    edits = PciDriver().prepare("nvidia.com/GPU", [device]).edits
    assert [node.host_path for node in edits.device_nodes] == ["/dev/vfio/vfio", "/dev/vfio/12"]
    assert dict(edits.env) == {"PCI_RESOURCE_NVIDIA_COM_GPU": "0000:05:00.1"}


def test_the_lowest_permitted_function_leads(host: Host) -> None:
    add(host, "0000:05:00.0", 12, driver="")
    add(host, "0000:05:00.1", 12)
    (device,) = find(host, GPU).devices
    assert (device.health, device.addresses) == (Health.HEALTHY, ("0000:05:00.1",))


def test_a_group_of_two_resources_goes_under_one_and_says_so(host: Host) -> None:
    add(host, "0000:05:00.0", 12)
    add(host, "0000:05:00.1", 12, device="22ba")
    found = find(host, GPU, SOUND)
    assert [(one.id, one.resource) for one in found.devices] == [("12", "nvidia.com/GPU")]
    (problem,) = found.problems
    assert "0000:05:00.1 (nvidia.com/sound) is not handed out by itself" in problem.message


def test_a_group_that_the_host_shares_is_unhealthy(host: Host) -> None:
    add(host, "0000:05:00.0", 12)
    add(host, "0000:05:00.1", 12, device="22ba", driver="snd_hda_intel")
    (device,) = find(host, GPU).devices
    assert device.health is Health.UNHEALTHY
    assert "0000:05:00.1 is bound to snd_hda_intel" in device.reason


def test_without_iommu_it_is_unhealthy_and_says_what_to_do(host: Host) -> None:
    add(host, "0000:05:00.0", None)
    (device,) = find(host, GPU).devices
    assert (device.id, device.health, device.watch) == ("0000:05:00.0", Health.UNHEALTHY, ())
    assert "switch the IOMMU on" in device.reason


@pytest.mark.parametrize(("profile", "ids"), [(1414, ["61"]), (0, [])])
def test_a_virtual_function_needs_a_vgpu_profile(host: Host, profile: int, ids: list[str]) -> None:
    card = host.pci(
        "0000:41:00.0", vendor="10de", device="2335", driver="nvidia", iommu_group=20, sriov_total=2
    )
    card.vf(driver="nvidia", vgpu_types={1414: "NVIDIA H200X-1-18C"}, iommu_group=61).set_vgpu_type(profile)
    found = look(host, PciSelector("nvidia.com/VGPU", id="10de:2335"))
    assert list(found) == ids
    assert all(device.attributes["vgpuProfile"] == "1414" for device in found.values())


def test_a_vfio_device_without_node_is_not_handed_out(tmp_path: Path) -> None:
    """Linux 6.1 names it in sysfs only: a container that is to get it would not start."""
    for style, paths in (("devices", 2), ("cdev", 3)):
        host = Host(tmp_path / style, vfio=style)  # type: ignore[arg-type]
        add(host, "0000:05:00.0", 12)
        assert (host.root / "sys/bus/pci/devices/0000:05:00.0/vfio-dev/vfio0").exists()
        assert len(find(host, GPU).devices[0].paths) == paths


def test_everything_lists_what_no_selector_names(host: Host) -> None:
    add(host, "0000:05:00.0", 12)
    add(host, "0000:06:00.0", 13, device="1eb8")
    add(host, "0000:07:00.0", 14, device="1eb8", driver="nouveau")
    add(host, "0000:08:00.0", 15, device="1eb8", driver="")
    found = find(host, GPU, everything=True)
    assert [(one.id, one.resource) for one in found.devices] == [("12", "nvidia.com/GPU"), ("13", "")]


def test_hot_plug(host: Host) -> None:
    add(host, "0000:05:00.0", 12)
    other = add(host, "0000:06:00.0", 13)
    other.unplug()
    assert list(look(host, GPU)) == ["12"]
    other.replug("vfio-pci")
    assert list(look(host, GPU)) == ["12", "13"]
