from __future__ import annotations

from pathlib import Path

import pytest

from dray.hardware.facts import Found
from dray.hardware.host_root import HostRoot
from dray.hardware.usb import UsbDevice, read_usb
from dray.testing.host import Host

KEY = "/sys/bus/usb/devices/1-2.3"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A key behind a hub, and a stick beside it."""
    host = Host(tmp_path / "root")
    xhci = host.pci("0000:00:14.0", vendor="8086", device="a36d", driver="xhci_hcd")
    host.usb("1-2", vendor="0409", product="55aa", device_class=(9, 0, 1), controller=xhci)
    host.usb("1-2.3", vendor="1050", product="0407", serial="0001", manufacturer="Yubico", name="YubiKey")
    host.usb("2-1", vendor="46f4", product="0001")
    return host


def read(host: Host) -> Found[UsbDevice]:
    return read_usb(HostRoot(host.root))


def ports(host: Host) -> list[str]:
    return [device.port for device in read(host).items]


def test_every_fact_of_a_device(host: Host) -> None:
    found = read(host)
    assert found.problems == ()
    hub, key, stick = found.items
    assert key == UsbDevice(
        port="1-2.3",
        bus=1,
        number=3,
        vendor="1050",
        product="0407",
        release="0100",
        node="/dev/bus/usb/001/003",
        has_node=True,
        serial="0001",
        manufacturer="Yubico",
        text="YubiKey",
        controller="0000:00:14.0",
    )
    assert key.id == "1050:0407"
    assert (hub.port, hub.is_hub, stick.is_hub) == ("1-2", True, False)
    assert (stick.serial, stick.manufacturer, stick.text, stick.controller) == ("", "", "", None)


def test_a_host_without_usb(tmp_path: Path) -> None:
    assert read(Host(tmp_path)) == Found()


def test_the_port_stays_when_it_is_plugged_again(tmp_path: Path) -> None:
    host = Host(tmp_path)
    key = host.usb("1-1", vendor="1050", product="0407", serial="0001")
    (before,) = read(host).items
    key.unplug()
    assert read(host) == Found()
    key.replug()
    (after,) = read(host).items
    assert (after.port, after.serial) == (before.port, before.serial)
    assert (after.number, after.node) != (before.number, before.node)


def test_a_node_that_is_not_there(host: Host) -> None:
    host.vanish("/dev/bus/usb/001/003")
    assert [device.has_node for device in read(host).items] == [True, False, True]


EVENT = "DEVNAME=bus/usb/001/003\nPRODUCT=1050/407/100\nBUSNUM=001\nDEVNUM=003\n"


def test_lines_that_are_no_pairs_are_passed_over(host: Host) -> None:
    host.garbage(f"{KEY}/uevent", ("odd\n\n" + EVENT).encode())
    assert (read(host).items[1].number, read(host).items[1].is_hub) == (3, False)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("BUSNUM=001", "BUSNUM=one"),
        ("BUSNUM=001", ""),
        ("BUSNUM=001", "BUSNUM=-1"),
        ("DEVNUM=003", "DEVNUM=0x3"),
        ("DEVNUM=003", "DEVNUM="),
        ("1050/407/100", "1050/407"),
        ("1050/407/100", "1050/407/100/1"),
        ("1050/407/100", "1050/yubi/100"),
        ("1050/407/100", "10500/407/100"),
        ("PRODUCT=1050/407/100", ""),
        ("bus/usb/001/003", "../../etc/shadow"),
        ("bus/usb/001/003", "/dev/sda"),
    ],
)
def test_a_bad_number_hides_the_device(host: Host, old: str, new: str) -> None:
    host.garbage(f"{KEY}/uevent", EVENT.replace(old, new).encode())
    found = read(host)
    assert ports(host) == ["1-2", "2-1"]
    assert [problem.path for problem in found.problems] == [f"{KEY}/uevent"]
    assert found.problems[0].message.startswith("1-2.3 is left out: ")


def test_a_name_of_its_node_is_not_needed(host: Host) -> None:
    host.garbage(f"{KEY}/uevent", EVENT.replace("DEVNAME=bus/usb/001/003\n", "").encode())
    assert (read(host).items[1].node, read(host).items[1].has_node) == ("/dev/bus/usb/001/003", True)


@pytest.mark.parametrize("break_it", [Host.garbage, Host.unreadable, Host.vanish])
def test_an_event_file_that_cannot_be_read_hides_the_device(host: Host, break_it: object) -> None:
    assert callable(break_it)
    break_it(host, f"{KEY}/uevent")
    assert ports(host) == ["1-2", "2-1"]
    assert len(read(host).problems) == 1


def test_no_id_means_no_device(host: Host) -> None:
    host.vanish(f"{KEY}/idVendor")
    assert ports(host) == ["1-2", "2-1"]
    assert "idVendor" in read(host).problems[0].message


def test_a_name_that_is_no_port_is_told(host: Host) -> None:
    host.link("/sys/bus/usb/devices/odd", "1-2.3")
    assert ports(host) == ["1-2", "1-2.3", "2-1"]
    assert [problem.path for problem in read(host).problems] == ["/sys/bus/usb/devices/odd"]


def test_words_of_the_device_cannot_play_tricks_on_a_terminal(host: Host) -> None:
    host.garbage(f"{KEY}/serial", b" 1\x1b[2J2 \n")
    host.garbage(f"{KEY}/manufacturer")
    found = read(host)
    assert (found.items[1].serial, found.items[1].manufacturer) == ("1\ufffd[2J2", "")
    assert [problem.path for problem in found.problems] == [f"{KEY}/manufacturer"]
