from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api import names
from dray.drivers.naming import (
    attribute_text,
    env_name,
    fitting,
    share_id,
    slice_name,
    socket_name,
    usb_id,
)

PLUGINS = "/var/lib/kubelet/device-plugins/"


@pytest.mark.parametrize(
    ("prefix", "resource", "name"),
    [
        ("PCI_RESOURCE", "nvidia.com/TU104GL_Tesla_T4", "PCI_RESOURCE_NVIDIA_COM_TU104GL_TESLA_T4"),
        ("MDEV_PCI_RESOURCE", "nvidia.com/GRID_T4-1Q", "MDEV_PCI_RESOURCE_NVIDIA_COM_GRID_T4-1Q"),
        ("USB_RESOURCE", "kubevirt.io/storage", "USB_RESOURCE_KUBEVIRT_IO_STORAGE"),
        ("PCI_RESOURCE", "a.b-c.io/d.e/f", "PCI_RESOURCE_A_B-C_IO_D_E_F"),
    ],
)
def test_variables(prefix: str, resource: str, name: str) -> None:
    assert env_name(prefix, resource) == name


@pytest.mark.parametrize(
    ("kind", "resource", "name"),
    [
        ("generic", "devices.kubevirt.io/kvm", "kubevirt-kvm.sock"),
        ("generic", "devices.kubevirt.io/vhost-net", "kubevirt-vhost-net.sock"),
        ("generic", "example.com/fuse", "kubevirt-example.com-fuse.sock"),
        ("iommufd", "devices.kubevirt.io/iommufd", "kubevirt-iommufd.sock"),
        ("socket", "devices.kubevirt.io/pr-helper", "kubevirt-pr-helper.sock"),
        ("pci", "nvidia.com/GPU", "kubevirt-nvidia.com-GPU.sock"),
        ("pci", "devices.kubevirt.io/nvme", "kubevirt-devices.kubevirt.io-nvme.sock"),
        ("mdev", "nvidia.com/GRID_T4-1Q", "kubevirt-nvidia.com-GRID_T4-1Q.sock"),
        ("mdev", "x.com/kvm", "kubevirt-x.com-kvm.sock"),
        ("mdev", "noslash", "kubevirt-noslash.sock"),
        ("usb", "kubevirt.io/storage", "kubevirt-kubevirt.io-storage.sock"),
    ],
)
def test_sockets(kind: str, resource: str, name: str) -> None:
    assert socket_name(kind, resource, directory=PLUGINS) == name
    assert socket_name(kind, resource, directory=PLUGINS.rstrip("/")) == name


def test_sockets_do_not_collide() -> None:
    first = socket_name("pci", "a.com/b-c", directory=PLUGINS)
    second = socket_name("pci", "a.com-b/c", directory=PLUGINS, taken=[first])
    assert first == "kubevirt-a.com-b-c.sock"
    assert second.startswith("kubevirt-a.com-b-c-")
    assert second == socket_name("pci", "a.com-b/c", directory=PLUGINS, taken={first})


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=400), st.integers(1, 60))
def test_sockets_fit(resource: str, length: int) -> None:
    directory = "/" + "d" * length
    name = socket_name("pci", resource, directory=directory)
    other = socket_name("pci", resource, directory=directory, taken=[name])
    assert name != other
    for one in (name, other):
        assert len(f"{directory}/{one}".encode()) <= 107
        assert "/" not in one


def test_long_names_that_differ_at_the_end_stay_apart() -> None:
    names = {socket_name("pci", f"a.com/{'x' * 200}{end}", directory=PLUGINS) for end in range(100)}
    assert len(names) == 100


@pytest.mark.parametrize(
    ("device", "index", "name"),
    [
        ("kvm", 0, "kvm0"),
        ("pr-helper", 999, "pr-helper999"),
        ("disk-sda", 1, "disk-sda1"),
        ("disk-sda1", 0, "disk-sda1-0"),
    ],
)
def test_shares(device: str, index: int, name: str) -> None:
    assert share_id(device, index) == name


@given(st.sets(st.text("a1-", min_size=1, max_size=4), min_size=2, max_size=8))
def test_no_two_shares_have_one_name(devices: set[str]) -> None:
    names = [share_id(device, index) for device in devices for index in range(12)]
    assert len(set(names)) == len(names)


def test_usb_ids_are_resource_and_ports() -> None:
    assert usb_id("kubevirt.io/storage", ["1-2.3"]) == "kubevirt.io/storage-1-2.3"
    assert usb_id("kubevirt.io/pair", ["1-1", "2-4"]) == "kubevirt.io/pair-1-1+2-4"
    long = {usb_id("kubevirt.io/" + "x" * 60, [f"1-{port}"]) for port in range(50)}
    assert len(long) == 50
    assert {len(name) for name in long} == {63}


def test_fitting_cuts_between_characters() -> None:
    assert fitting("abc", 3) == "abc"
    assert len(fitting("ü" * 40, 30).encode()) <= 30


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        (("kvm",), "kvm"),
        (("pr-helper",), "pr-helper"),
        (("disk", "nvme0n1"), "disk--nvme0n1"),
        (("usb-2-1", "2-2"), "usb-2-1--2-2"),
        (("x" * 63,), "x" * 63),
    ],
)
def test_names_in_slices(parts: tuple[str, ...], name: str) -> None:
    assert slice_name(*parts) == name


@given(st.sets(st.lists(st.text("aA1-./\0ü", max_size=5), min_size=1, max_size=3).map(tuple), min_size=2))
def test_no_two_devices_have_one_name_in_a_slice(devices: set[tuple[str, ...]]) -> None:
    found = {slice_name(*parts) for parts in devices}
    assert len(found) == len(devices)
    assert all(names.dns_label(name) == [] for name in found)


def test_long_names_in_slices() -> None:
    found = {slice_name("disk", f"{'by-id-' * 20}{number}") for number in range(100)}
    assert len(found) == 100
    assert all(names.dns_label(name) == [] for name in found)


@pytest.mark.parametrize(
    ("text", "cut"), [("NVIDIA", "NVIDIA"), ("x" * 65, "x" * 64), ("ü" * 33, "ü" * 32), ("\udc80", "?")]
)
def test_descriptions_are_cut_between_characters(text: str, cut: str) -> None:
    assert attribute_text(text) == cut
