from __future__ import annotations

import os
from pathlib import Path

import pytest

from dray.errors import ConflictError, InvalidError
from dray.testing.host import Host


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def devices(host: Host) -> list[str]:
    return sorted(name for name in os.listdir(host.root / "sys/bus/usb/devices") if ":" not in name)


def test_a_device_reads_as_on_a_host(host: Host) -> None:
    key = host.usb(
        "1-1", vendor="46F4", product="1", serial="S-1", manufacturer="Acme", name="Key", release="0200"
    )
    link = host.root / "sys/bus/usb/devices/1-1"
    assert link.resolve() == key.path
    names = (
        "idVendor",
        "idProduct",
        "serial",
        "manufacturer",
        "product",
        "busnum",
        "devnum",
        "devpath",
        "dev",
    )
    texts = [(link / name).read_text().strip() for name in names]
    assert texts == ["46f4", "0001", "S-1", "Acme", "Key", "1", "2", "1", "189:1"]
    assert (link / "uevent").read_text() == (
        "MAJOR=189\nMINOR=1\nDEVNAME=bus/usb/001/002\nDEVTYPE=usb_device\nDRIVER=usb\nPRODUCT=46f4/1/200\n"
        "TYPE=0/0/0\nBUSNUM=001\nDEVNUM=002\n"
    )
    assert (link / "descriptors").read_bytes()[8:12] == bytes.fromhex("f4460100")
    assert key.node == host.root / "dev/bus/usb/001/002"
    assert key.node.exists()
    assert devices(host) == ["1-1", "usb1"]
    assert not (link / "1-1:1.0/driver").exists()


def test_texts_a_device_does_not_have_are_no_files(host: Host) -> None:
    key = host.usb("1-1", vendor="46f4", product="0001")
    assert not any((key.path / name).exists() for name in ("serial", "manufacturer", "product"))


def test_replugging_gives_the_next_number_at_the_same_port(host: Host) -> None:
    key = host.usb("1-1", vendor="46f4", product="0001")
    old = key.node
    key.unplug()
    key.unplug()
    assert not key.present
    assert not old.exists()
    assert devices(host) == ["usb1"]
    assert os.listdir(host.root / "dev/bus/usb/001") == ["001"]
    key.replug()
    key.replug()
    assert (key.number, key.node.name) == (3, "003")
    assert devices(host) == ["1-1", "usb1"]
    key.unplug()
    key.replug(77)
    assert (key.path / "devnum").read_text() == "77\n"
    key.set(serial="new")
    assert (key.number, (key.path / "serial").read_text()) == (78, "new\n")


def test_numbers_come_round_after_127(host: Host) -> None:
    host.usb("1-1", vendor="46f4", product="0001")
    other = host.usb("1-2", vendor="46f4", product="0001", dev=126)
    seen = []
    for _ in range(3):
        other.unplug()
        other.replug()
        seen.append(other.number)
    assert seen == [127, 3, 4]


def test_hubs_on_the_way_are_made_and_take_their_devices_along(host: Host) -> None:
    key = host.usb("1-2.3", vendor="46f4", product="0001")
    assert devices(host) == ["1-2", "1-2.3", "usb1"]
    assert (key.path / "port").resolve() == key.path.parent / "1-2:1.0/1-2-port3"
    hub = host.root / "sys/bus/usb/devices/1-2"
    assert (hub / "bDeviceClass").read_text() == "09\n"
    second = host.usb("1-2.4", vendor="46f4", product="0001")
    assert second.path.parent == key.path.parent
    host._usb._devices["1-2"].unplug()
    assert not key.present
    assert not second.present
    with pytest.raises(ConflictError, match="hub"):
        key.replug()


def test_a_controller_takes_its_bus_along(host: Host) -> None:
    xhci = host.pci("0000:00:14.0", vendor="8086", device="a36d", class_code="0c0330", driver="xhci_hcd")
    key = host.usb("1-1", vendor="46f4", product="0001", controller=xhci)
    gone = host.usb("1-4", vendor="46f4", product="0002")
    gone.unplug()
    assert key.path.parent.parent == xhci.path
    xhci.unbind()
    assert devices(host) == []
    xhci.bind("xhci_hcd")
    assert devices(host) == ["1-1", "usb1"]
    xhci.unplug()
    xhci.replug()
    assert devices(host) == ["1-1", "usb1"]


def test_two_buses(host: Host) -> None:
    host.usb("1-1", vendor="46f4", product="0001")
    second = host.usb("2-1", vendor="46f4", product="0001", dev=11)
    assert second.node == host.root / "dev/bus/usb/002/011"
    assert (second.path / "dev").read_text() == "189:138\n"
    with pytest.raises(ConflictError, match="number 11"):
        host.usb("2-2", vendor="46f4", product="0001", dev=11)


@pytest.mark.parametrize("port", ["1", "1-", "usb1", "1-0", "0-1", "1-1.", "1-1:1.0", "../1-1"])
def test_a_bad_port_is_refused(host: Host, port: str) -> None:
    with pytest.raises(InvalidError, match="USB port"):
        host.usb(port, vendor="46f4", product="0001")


def test_bad_ids_and_used_ports_are_refused(host: Host) -> None:
    with pytest.raises(InvalidError, match="hexadecimal"):
        host.usb("1-1", vendor="xyz", product="0001")
    host.usb("1-1", vendor="46f4", product="0001")
    with pytest.raises(ConflictError, match="1-1"):
        host.usb("1-1", vendor="46f4", product="0001")
