"""Kernel modules: what a module needs is in its own text, and the order follows from it."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from dray.errors import NotFoundError
from dray.testing.machine.modules import builtin, dependencies, load_order, names, read_module


def image(*needs: str) -> bytes:
    return b"\x7fELF\0license=GPL\0depends=" + ",".join(needs).encode() + b"\0retpoline=Y\0"


MODULES = {
    "usb_common": image(),
    "usbcore": image("usb-common"),
    "xhci_hcd": image("usbcore", "usb-common"),
    "hid": image(),
    "usbhid": image("hid", "usbcore"),
}


@pytest.mark.parametrize(
    ("content", "needed"),
    [
        (image(), ()),
        (image("vfio"), ("vfio",)),
        (image("usb-common", "usbcore"), ("usb_common", "usbcore")),
        (b"\x7fELF\0license=GPL\0", ()),
    ],
)
def test_what_a_module_needs(content: bytes, needed: tuple[str, ...]) -> None:
    assert dependencies(content) == needed


def test_each_comes_after_what_it_needs_and_once() -> None:
    assert load_order(["usbhid", "xhci_hcd"], MODULES.__getitem__) == (
        "hid",
        "usb_common",
        "usbcore",
        "usbhid",
        "xhci_hcd",
    )


def test_what_the_kernel_has_inside_is_not_loaded() -> None:
    assert load_order(["xhci_hcd"], MODULES.__getitem__, frozenset({"usbcore"})) == ("usb_common", "xhci_hcd")


def test_a_circle_ends() -> None:
    with pytest.raises(NotFoundError, match="depends on itself"):
        load_order(["a"], {"a": image("b"), "b": image("a")}.__getitem__)


def test_files_as_a_package_has_them(tmp_path: Path) -> None:
    drivers = tmp_path / "lib" / "modules" / "6.12.1" / "kernel" / "drivers"
    drivers.mkdir(parents=True)
    (drivers / "vfio-pci.ko").write_bytes(image("vfio"))
    (drivers / "mdev.ko.xz").write_bytes(lzma.compress(image("vfio-pci-core")))
    (drivers / "mdev.ko.sig").write_bytes(b"")
    (tmp_path / "lib" / "modules" / "6.12.1" / "modules.builtin").write_text(
        "kernel/fs/ext4/crc32c-intel.ko\n"
    )
    found = names(tmp_path)
    assert sorted(found) == ["mdev", "vfio_pci"]
    assert {name: dependencies(read_module(path)) for name, path in found.items()} == {
        "vfio_pci": ("vfio",),
        "mdev": ("vfio_pci_core",),
    }
    assert builtin(tmp_path) == {"crc32c_intel"}
