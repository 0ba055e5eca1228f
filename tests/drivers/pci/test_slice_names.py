"""A name in a ResourceSlice is the same whatever happens to a device that somebody may hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dray.api import names
from dray.drivers.contract import Device
from dray.drivers.pci import PciDriver
from dray.drivers.pci.config import PciConfig, PciSelector
from dray.hardware.host_root import HostRoot
from dray.testing.host import Host, PciFunction
from tests.campaign import campaign, seeded

GPU = PciSelector("nvidia.com/GPU", id="10de:2330")


def add(host: Host, address: str, group: int | None, *, driver: str = "vfio-pci") -> PciFunction:
    return host.pci(address, vendor="10de", device="2330", driver=driver, iommu_group=group)


def look(host: Host, known: Sequence[Device] = (), *selectors: PciSelector) -> list[Device]:
    driver = PciDriver(PciConfig(selectors or (GPU,)))
    return list(driver.discover(HostRoot(host.root), known).devices)


def named(devices: Sequence[Device]) -> dict[str, str]:
    return {device.name: device.addresses[0] for device in devices}


def test_a_name_is_not_that_of_the_leader(tmp_path: Path) -> None:
    host = Host(tmp_path)
    first = add(host, "0000:05:00.0", 12)
    add(host, "0000:05:00.1", 12)
    before = look(host)
    assert named(before) == {"pci-0000-05-00-0": "0000:05:00.0"}
    first.unbind()
    for known in (before, []):
        assert named(look(host, known)) == {"pci-0000-05-00-0": "0000:05:00.1"}, "before and after a restart"


def test_a_name_stays_while_a_lower_function_comes_and_its_own_goes(tmp_path: Path) -> None:
    host = Host(tmp_path)
    own = add(host, "0000:05:00.1", 12)
    add(host, "0000:05:00.2", 12)
    known = look(host)
    add(host, "0000:05:00.0", 12)
    assert [device.name for device in known] == ["pci-0000-05-00-1"]
    known = look(host, known)
    assert named(known) == {"pci-0000-05-00-1": "0000:05:00.0"}
    own.unplug()
    assert [device.name for device in look(host, known)] == ["pci-0000-05-00-1"]
    assert [device.name for device in look(host)] == ["pci-0000-05-00-0"], "nobody knows it"


def test_a_function_that_moves_to_another_group_leaves_its_name_behind(tmp_path: Path) -> None:
    host = Host(tmp_path)
    first = add(host, "0000:05:00.0", 12)
    add(host, "0000:05:00.1", 12)
    known = look(host)
    first.set(iommu_group=13)
    assert named(look(host, known)) == {
        "pci-0000-05-00-0": "0000:05:00.1",
        "pci-group--13": "0000:05:00.0",
    }


def test_the_config_has_no_say_in_it(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.pci_bridge("0000:00:04.0", bus=5, driver="vfio-pci", iommu_group=12)
    add(host, "0000:05:00.0", 12, driver="nvidia")
    add(host, "0000:05:00.1", 12)
    (device,) = look(host, (), PciSelector("x/sound", address="0000:05:00.1"))
    assert device.name == "pci-0000-05-00-0"
    assert device.hardware == ("pci:0000:05:00.0", "pci:0000:05:00.1"), "bridges are nobody's"


def test_without_group(tmp_path: Path) -> None:
    host = Host(tmp_path)
    add(host, "0000:05:00.0", None)
    (device,) = look(host)
    assert (device.name, device.hardware) == ("pci-0000-05-00-0", ("pci:0000:05:00.0",))
    assert look(host, [device]) == [device]


def test_a_remembered_device_without_name_gets_the_same_one(tmp_path: Path) -> None:
    host = Host(tmp_path)
    add(host, "0000:05:00.0", 12)
    (device,) = look(host)
    assert look(host, [replace(device, name="", hardware=())]) == [device]


def test_random_days(tmp_path: Path) -> None:
    """Names are labels, unique, and stay as long as a function of the device does."""
    rng = seeded(11)
    for day in range(campaign(3, 60)):
        host, known = Host(tmp_path / str(day)), list[Device]()
        functions = [add(host, f"0000:05:00.{number}", 12 + number % 3) for number in range(6)]
        for _ in range(25):
            function = rng.choice(functions)
            if function.present:
                function.unplug()
            else:
                function.set(iommu_group=rng.choice([12, 13, 14]))
                function.replug("vfio-pci")
            before, known = known, look(host, known)
            found = [device.name for device in known]
            assert len(set(found)) == len(found)
            assert all(names.dns_label(name) == [] for name in found)
            for old in before:
                same = [one for one in known if one.iommu_group == old.iommu_group]
                if same and set(old.hardware) & set(same[0].hardware):
                    assert same[0].name == old.name
