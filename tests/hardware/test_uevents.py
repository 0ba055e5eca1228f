from __future__ import annotations

import select
from pathlib import Path

import pytest

from dray.hardware.uevents import Uevent, Uevents, parse_uevent

PCI = (
    b"change@/devices/pci0000:00/0000:00:00.0\0ACTION=change\0DEVPATH=/devices/pci0000:00/0000:00:00.0\0"
    b"SUBSYSTEM=pci\0PCI_ID=8086:0D57\0SEQNUM=2329\0"
)


def test_a_message_of_the_kernel_is_read() -> None:
    assert parse_uevent(PCI) == Uevent("change", "/devices/pci0000:00/0000:00:00.0", "pci")


@pytest.mark.parametrize(
    "message",
    [b"", b"libudev\0\xfe\xed\xca\xfe", b"@", b"add", b"add@", b"add@relative", b"\0\0\0=", b"\xff@\xff"],
)
def test_other_messages_are_nothing(message: bytes) -> None:
    assert parse_uevent(message) is None


@pytest.mark.parametrize(
    ("facts", "concerns"),
    [
        (b"SUBSYSTEM=usb", True),
        (b"SUBSYSTEM=vfio-dev", True),
        (b"SUBSYSTEM=net", False),
        (b"SUBSYSTEM=mtty\0MDEV_STATE=registered", True),
        (b"no equals sign", False),
        (b"SUBSYSTEM=\xff\xfe", False),
    ],
)
def test_only_some_subsystems_concern_devices(facts: bytes, concerns: bool) -> None:
    event = parse_uevent(b"add@/devices/x\0" + facts + b"\0")
    assert event is not None and event.is_about_devices is concerns


def test_the_kernel_is_heard() -> None:
    """A change is asked for by hand, as `udevadm trigger` does; the null device concerns nobody, a PCI function does."""
    function = next(iter(sorted(Path("/sys/bus/pci/devices").glob("*/uevent"))), None)
    if function is None or not _may_write(function):
        pytest.skip("this user may not ask the kernel for a notice")
    with Uevents() as uevents:
        assert not uevents.drain()
        Path("/sys/devices/virtual/mem/null/uevent").write_text("change")
        _wait(uevents)
        assert not uevents.drain()
        function.write_text("change")
        _wait(uevents)
        assert uevents.drain()
        assert not uevents.drain()


def _wait(uevents: Uevents) -> None:
    assert select.select([uevents], [], [], 10)[0]


def _may_write(path: Path) -> bool:
    try:
        with path.open("w"):
            return True
    except OSError:
        return False
