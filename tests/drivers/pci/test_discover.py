from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dray.drivers.contract import Device, Discovery, Health
from dray.drivers.pci import PciDriver
from dray.drivers.pci.config import PciConfig, PciSelector, PciUnit
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
            name="pci-0000-05-00-0",
            hardware=("pci:0000:05:00.0",),
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


# Devices that are known from before.


def again(
    host: Host, known: Discovery, *selectors: PciSelector, unit: PciUnit = PciUnit.IOMMU_GROUP
) -> Discovery:
    return PciDriver(PciConfig(selectors or (GPU,), unit=unit)).discover(HostRoot(host.root), known.devices)


@pytest.mark.parametrize("driver", ["e1000e", "nouveau", "mlx5_vfio_pci"])
def test_a_known_device_that_another_driver_has_is_unhealthy_until_it_is_back(
    host: Host, driver: str
) -> None:
    """Upstream issue 8607."""
    gpu = add(host, "0000:05:00.0", 12)
    add(host, "0000:06:00.0", 13)
    known = find(host, GPU)
    gpu.bind(driver)
    for _ in range(2):  # it stays: the last look is what is known now
        known = again(host, known)
        assert [(one.id, one.health) for one in known.devices] == [
            ("12", Health.UNHEALTHY),
            ("13", Health.HEALTHY),
        ]
        assert known.devices[0].reason == f"0000:05:00.0 is bound to {driver}: bind it to vfio-pci"
    gpu.unbind()
    known = again(host, known)
    assert known.devices[0].reason == "0000:05:00.0 has no driver: bind it to vfio-pci"
    gpu.bind("vfio-pci")
    assert again(host, known) == find(host, GPU)


def test_a_known_device_that_left_the_bus_or_the_config_is_gone(host: Host) -> None:
    gpu = add(host, "0000:05:00.0", 12)
    known = find(host, GPU)
    gpu.bind("e1000e")
    assert again(host, known, SOUND).devices == ()
    gpu.unplug()
    gone = again(host, known)
    assert gone.devices == ()
    gpu.replug("e1000e")
    assert again(host, gone).devices == ()  # it is the host's now


def test_a_known_device_that_is_plugged_again_has_the_group_it_gets(host: Host) -> None:
    gpu = add(host, "0000:05:00.0", 12)
    known = find(host, GPU)
    gpu.set(iommu_group=15)
    add(host, "0000:06:00.0", 12)
    found = again(host, known)
    assert [(one.id, one.addresses) for one in found.devices] == [
        ("12", ("0000:06:00.0",)),
        ("15", ("0000:05:00.0",)),
    ]


def test_a_known_device_that_is_only_remembered_as_held(host: Host) -> None:
    """After a restart: what was kept is the id and the address, and no more."""
    add(host, "0000:05:00.0", 12, driver="e1000e")
    held = Device("12", "pci", "nvidia.com/GPU", Health.HEALTHY, addresses=("0000:05:00.0",))
    (device,) = PciDriver(PciConfig((GPU,))).discover(HostRoot(host.root), [held]).devices
    assert (device.id, device.health) == ("12", Health.UNHEALTHY)


def test_a_virtual_function_that_loses_its_profile_is_unhealthy_meanwhile(host: Host) -> None:
    card = host.pci("0000:41:00.0", vendor="10de", device="2335", driver="nvidia", sriov_total=2)
    vf = card.vf(driver="nvidia", vgpu_types={1414: "A", 1428: "B"}, iommu_group=61)
    selector = PciSelector("nvidia.com/VGPU", id="10de:2335")
    vf.set_vgpu_type(1414)
    known = find(host, selector)
    vf.set_vgpu_type(0)
    known = again(host, known, selector)
    assert [(one.id, one.health) for one in known.devices] == [("61", Health.UNHEALTHY)]
    assert "has no vGPU profile" in known.devices[0].reason
    vf.set_vgpu_type(1428)
    assert again(host, known, selector).devices[0].health is Health.HEALTHY
    card.remove_vfs()
    assert again(host, known, selector).devices == ()


def test_one_function_of_a_group_goes_to_the_host_and_comes_back(host: Host) -> None:
    add(host, "0000:05:00.0", 12)
    second = add(host, "0000:05:00.1", 12)
    known = find(host, GPU)
    for driver, health in (("e1000e", Health.UNHEALTHY), ("", Health.HEALTHY), ("vfio-pci", Health.HEALTHY)):
        if driver:
            second.bind(driver)
        else:
            second.unbind()
        known = again(host, known)
        assert [(one.id, one.health, one.addresses) for one in known.devices] == [
            ("12", health, ("0000:05:00.0",))
        ]


# One device for each function.


def by_function(host: Host, *selectors: PciSelector, known: Discovery | None = None) -> dict[str, Device]:
    found = again(host, known or Discovery((), (), ()), *selectors, unit=PciUnit.FUNCTION)
    return {device.id: device for device in found.devices}


def test_by_function_the_address_is_the_id(host: Host) -> None:
    add(host, "0000:05:00.0", 12)
    add(host, "0000:06:00.0", 13)
    assert list(by_function(host)) == ["0000:05:00.0", "0000:06:00.0"]
    (plain, _), (named, _) = find(host, GPU).devices, by_function(host).values()
    assert replace(plain, id="0000:05:00.0") == named
    edits = PciDriver().prepare("nvidia.com/GPU", [named]).edits
    assert [node.host_path for node in edits.device_nodes] == ["/dev/vfio/vfio", "/dev/vfio/12"]


def test_by_function_the_id_stays_whatever_driver_and_group_number_it_has(host: Host) -> None:
    gpu = add(host, "0000:05:00.0", 12)
    gpu.unbind()
    assert list(by_function(host)) == ["0000:05:00.0"]
    gpu.bind("vfio-pci")
    gpu.set(iommu_group=40)
    assert [(name, one.iommu_group) for name, one in by_function(host).items()] == [("0000:05:00.0", 40)]


def test_by_function_a_group_has_one_owner_all_the_same(host: Host) -> None:
    """Two ids for one group would be two owners; an id that goes with a function would be, when that one goes."""
    first = add(host, "0000:05:00.0", 12)
    add(host, "0000:05:00.1", 12, device="22ba")
    add(host, "0000:06:00.0", 13)
    for selectors in ((GPU, SOUND), (SOUND, GPU)):
        assert list(by_function(host, *selectors)) == ["12", "0000:06:00.0"]
    first.unbind()
    assert by_function(host, GPU, SOUND)["12"].addresses == ("0000:05:00.1",)
    # A function that the config does not name is no device: the other is alone.
    first.bind("vfio-pci")
    assert list(by_function(host, GPU)) == ["0000:05:00.0", "0000:06:00.0"]


def test_by_function_bridges_do_not_count(host: Host) -> None:
    host.pci_bridge("0000:00:04.0", bus=5, iommu_group=12)
    add(host, "0000:05:00.0", 12)
    assert list(by_function(host, GPU, PciSelector("x/y", id="1b36:000c"))) == ["0000:05:00.0"]


def test_a_known_device_keeps_its_id_when_a_neighbour_comes_or_the_unit_changes(host: Host) -> None:
    """It may be held: under another id its group would be free."""
    add(host, "0000:05:00.0", 12)
    known = again(host, Discovery((), (), ()), unit=PciUnit.FUNCTION)
    neighbour = add(host, "0000:05:00.1", 12)
    assert list(by_function(host)) == ["12"]
    assert list(by_function(host, known=known)) == ["0000:05:00.0"]
    assert [one.id for one in again(host, known).devices] == ["0000:05:00.0"]
    neighbour.unplug()
    assert [one.id for one in again(host, known).devices] == ["0000:05:00.0"]
    plain = find(host, GPU)
    assert list(by_function(host, known=plain)) == ["12"]


def test_an_id_is_never_there_twice(host: Host) -> None:
    """A function moves to a group of its own, and its old group, which may be held, has its address for a name."""
    first = add(host, "0000:05:00.0", 12)
    known = again(host, Discovery((), (), ()), unit=PciUnit.FUNCTION)
    add(host, "0000:05:00.1", 12)
    known = again(host, known, unit=PciUnit.FUNCTION)
    first.set(iommu_group=15)
    found = by_function(host, known=known)
    assert {name: one.addresses for name, one in found.items()} == {
        "0000:05:00.0": ("0000:05:00.1",),
        "15": ("0000:05:00.0",),
    }


def test_a_usb_controller_in_the_group_is_the_hosts(host: Host) -> None:
    """Its USB devices are handed out one by one; the group is not, while the host's driver has the controller."""
    add(host, "0000:05:00.0", 12)
    controller = host.pci(
        "0000:05:00.2", vendor="10de", device="1ad8", driver="xhci_hcd", iommu_group=12, class_code="0c0330"
    )
    host.usb("1-1", vendor="46f4", product="0001", controller=controller)
    (device,) = find(host, GPU).devices
    assert device.health is Health.UNHEALTHY and "0000:05:00.2 is bound to xhci_hcd" in device.reason
    controller.bind("vfio-pci")
    (device,) = find(host, GPU).devices
    assert (device.health, device.addresses) == (Health.HEALTHY, ("0000:05:00.0",))
    assert device.paths == ("/dev/vfio/vfio", "/dev/vfio/12")
