from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from dray.drivers.contract import Device, Discovery, Health
from dray.drivers.usb import UsbDriver
from dray.drivers.usb.config import UsbConfig, UsbResource, UsbSelector
from dray.errors import InvalidError
from dray.hardware.host_root import HostRoot
from dray.testing.host import Host, UsbDevice

STORAGE, KEY = UsbSelector("46F4", "1"), UsbSelector("1050", "0407")


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def storage(host: Host, port: str, serial: str = "") -> UsbDevice:
    return host.usb(port, vendor="46f4", product="0001", serial=serial)


def key(host: Host, port: str) -> UsbDevice:
    return host.usb(port, vendor="1050", product="0407")


def find(
    host: Host, *resources: UsbResource, known: Sequence[Device] = (), everything: bool = False
) -> Discovery:
    return UsbDriver(UsbConfig(resources, everything)).discover(HostRoot(host.root), known)


def ports(found: Discovery) -> list[tuple[str, str]]:
    return [(device.resource, str(device.attributes["ports"])) for device in found.devices]


def test_one_selector_one_device(host: Host) -> None:
    host.usb("1-2.3", vendor="46f4", product="0001", serial="7", manufacturer="QEMU", name="Disk")
    key(host, "1-1")
    (device,) = find(host, UsbResource("kubevirt.io/storage", (STORAGE,))).devices
    assert device == Device(
        "kubevirt.io/storage-1-2.3",
        "usb",
        "kubevirt.io/storage",
        Health.HEALTHY,
        label="1-2.3",
        attributes={
            "id": "46f4:0001",
            "manufacturer": "QEMU",
            "ports": "1-2.3",
            "product": "Disk",
            "serial": "7",
        },
        paths=("/dev/bus/usb/001/003",),
        watch=("/dev/bus/usb/001/003",),
        addresses=("1:3",),
        name="usb-1-2-3",
        hardware=("usb:1-2.3",),
    )


def test_two_equal_devices_are_two_in_order(host: Host) -> None:
    storage(host, "1-2")
    storage(host, "1-1")
    found = find(host, UsbResource("x/y", (STORAGE,)))
    assert ports(found) == [("x/y", "1-1"), ("x/y", "1-2")]


def test_two_selectors_are_one_set(host: Host) -> None:
    key(host, "1-1")
    storage(host, "1-2")
    storage(host, "1-3")
    found = find(host, UsbResource("x/y", (STORAGE, KEY)))
    assert [(one.id, one.addresses) for one in found.devices] == [("x/y-1-2+1-1", ("1:3", "1:2"))]


def test_two_resources_three_devices(host: Host) -> None:
    for port in (1, 2):
        storage(host, f"1-{port}")
    key(host, "2-1")
    found = find(host, UsbResource("x/key", (KEY,)), UsbResource("x/disk", (STORAGE,)))
    assert ports(found) == [("x/key", "2-1"), ("x/disk", "1-1"), ("x/disk", "1-2")]


def test_earlier_entries_take_first(host: Host) -> None:
    storage(host, "1-1")
    found = find(host, UsbResource("x/first", (STORAGE,)), UsbResource("x/second", (STORAGE,)))
    assert ports(found) == [("x/first", "1-1")]


def test_a_selector_given_twice_needs_two_devices(host: Host) -> None:
    storage(host, "1-1")
    twice = UsbResource("x/y", (STORAGE, STORAGE))
    assert find(host, twice).devices == ()
    storage(host, "1-2")
    assert ports(find(host, twice)) == [("x/y", "1-1,1-2")]


def test_port_and_serial_choose_one_of_equal_devices(host: Host) -> None:
    for port in (1, 2, 3):
        storage(host, f"1-{port}", serial=str(port))
    assert ports(find(host, UsbResource("x/y", (UsbSelector(serial="2"),)))) == [("x/y", "1-2")]
    assert ports(find(host, UsbResource("x/y", (UsbSelector(port="1-3"),)))) == [("x/y", "1-3")]
    both = UsbResource("x/y", (STORAGE, UsbSelector("46f4", "0001", serial="1")))
    assert ports(find(host, both)) == [("x/y", "1-2,1-1")]


def test_no_sysfs_and_no_selectors_find_nothing(tmp_path: Path, host: Host) -> None:
    assert find(host, UsbResource("x/y", (STORAGE,))).devices == ()
    storage(host, "1-1")
    assert find(host, UsbResource("x/y", ())).devices == ()


def test_plugged_again_it_is_the_same_device_with_another_node(host: Host) -> None:
    stick = storage(host, "1-1")
    entry = UsbResource("x/y", (STORAGE,))
    (before,) = find(host, entry).devices
    stick.unplug()
    assert find(host, entry, known=[before]).devices == ()
    stick.replug()
    (after,) = find(host, entry, known=[before]).devices
    assert (after.id, after.health) == (before.id, Health.HEALTHY)
    assert (before.paths, after.paths) == (("/dev/bus/usb/001/002",), ("/dev/bus/usb/001/003",))


def test_an_unplugged_device_does_not_tear_other_sets_apart(host: Host) -> None:
    """Whoever uses 1-2 and 2-2 must not find that they now belong to another set."""
    sticks = [storage(host, f"1-{port}") for port in (1, 2)]
    for port in (1, 2):
        key(host, f"2-{port}")
    entry = UsbResource("x/y", (STORAGE, KEY))
    before = find(host, entry).devices
    assert [device.label for device in before] == ["1-1,2-1", "1-2,2-2"]
    sticks[0].unplug()
    first, second = find(host, entry, known=before).devices
    assert second == before[1]
    assert (first.id, first.health) == (before[0].id, Health.UNHEALTHY)
    assert first.reason == "the USB device on port 1-1 is gone: plug it in again"
    assert first.paths == ("/dev/bus/usb/002/002",)
    sticks[0].replug()
    assert [one.health for one in find(host, entry, known=(first, second)).devices] == [Health.HEALTHY] * 2


def test_another_device_on_the_port_is_not_taken_for_the_old_one(host: Host) -> None:
    stick = storage(host, "1-1")
    entry = UsbResource("x/y", (STORAGE,))
    before = find(host, entry).devices
    stick.unplug()
    stick.set(vendor="1050", product="0407")
    stick.replug()
    assert find(host, entry, known=before).devices == ()


def test_a_set_of_another_config_is_forgotten(host: Host) -> None:
    storage(host, "1-1")
    key(host, "1-2")
    known = find(host, UsbResource("x/y", (STORAGE, KEY))).devices
    assert ports(find(host, UsbResource("x/y", (KEY,)), known=known)) == [("x/y", "1-2")]


def test_without_node_it_is_unhealthy(host: Host) -> None:
    storage(host, "1-1")
    host.vanish("/dev/bus/usb/001/002")
    (device,) = find(host, UsbResource("x/y", (STORAGE,))).devices
    assert (device.health, device.reason) == (Health.UNHEALTHY, "/dev/bus/usb/001/002 does not exist")


def test_everything_lists_the_rest_without_hubs(host: Host) -> None:
    storage(host, "1-1")
    key(host, "1-2.1")
    found = find(host, UsbResource("x/y", (STORAGE,)), everything=True)
    assert [(one.id, one.resource) for one in found.devices] == [("x/y-1-1", "x/y"), ("1-2.1", "")]
    assert found.watch == ("/dev/bus/usb", "/dev/bus/usb/001")


@pytest.mark.parametrize(
    "fields",
    [{}, {"vendor": "46f4"}, {"vendor": "xyz", "product": "1"}, {"vendor": "0x46f4", "product": "1"}],
)
def test_bad_selectors_are_refused(fields: dict[str, str]) -> None:
    with pytest.raises(InvalidError):
        UsbSelector(**fields)


def test_what_a_slice_has_no_room_for(host: Host) -> None:
    """Descriptions are cut, a serial number that is cut would be another one."""
    host.usb("1-1", vendor="46f4", product="0001", serial="9" * 65, manufacturer="ü" * 40, name="n" * 65)
    (device,) = find(host, UsbResource("x/y", (STORAGE,))).devices
    assert device.attributes == {
        "id": "46f4:0001",
        "manufacturer": "ü" * 32,
        "ports": "1-1",
        "product": "n" * 64,
    }


def test_sets_have_the_names_and_parts_of_all_their_ports(host: Host) -> None:
    """Also where one is gone."""
    storage(host, "1-1.2.2")
    pair = [storage(host, "2-1"), key(host, "2-2")]
    resources = (UsbResource("x/pair", (UsbSelector(port="2-1"), KEY)), UsbResource("x/one", (STORAGE,)))
    found = find(host, *resources)
    named = {device.name: device.hardware for device in found.devices}
    assert named == {"usb-2-1--2-2": ("usb:2-1", "usb:2-2"), "usb-1-1-2-2": ("usb:1-1.2.2",)}
    pair[1].unplug()
    after = find(host, *resources, known=found.devices)
    assert {device.name: device.hardware for device in after.devices} == named
