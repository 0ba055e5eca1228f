"""Whatever one file of the host holds: no call raises, and no device notices what is wrong with another."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dray.hardware.cgroup import read_cgroup_version
from dray.hardware.facts import Found
from dray.hardware.host_root import HostRoot
from dray.hardware.iommu import read_iommu_groups
from dray.hardware.mdev import read_mdev_parents, read_mdevs
from dray.hardware.misc_capacity import read_misc_capacity
from dray.hardware.numa import read_numa
from dray.hardware.pci import read_pci
from dray.hardware.selinux import read_selinux
from dray.hardware.usb import read_usb
from dray.hardware.vfio import read_vfio
from dray.hardware.vgpu import read_vgpus
from dray.testing.host import Host, MdevType
from tests.campaign import campaign

UUIDS = [f"83b8f4f2-509f-382f-3c1e-e6bfe0fa100{index}" for index in range(3)]
# Where a device's files lie. A file belongs to the deepest of these on its way.
OWNER = re.compile(
    r"(?<=/)([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]|[0-9]+-[0-9.]+|[0-9a-f-]{36}|node[0-9]|mtty)(?=/|$)"
)
IGNORED = re.compile(r"/(config|resource|descriptors)$|^sys/module|^\.staging")


@dataclass(frozen=True)
class Facts:
    """Everything that is read, by the device's name."""

    pci: dict[str, object]
    usb: dict[str, object]
    mdevs: dict[str, object]
    parents: dict[str, object]
    vgpus: dict[str, object]
    numa: dict[str, object]
    groups: dict[str, object]


def read_all(root: HostRoot) -> Facts:
    with root.sweep() as sweep:
        functions = read_pci(sweep)
        read_vfio(sweep), read_misc_capacity(sweep), read_cgroup_version(sweep), read_selinux(sweep)
        groups = read_iommu_groups(sweep, functions.items)
        return Facts(
            named(functions, "address"),
            named(read_usb(sweep), "port"),
            named(read_mdevs(sweep), "uuid"),
            named(read_mdev_parents(sweep), "name"),
            named(read_vgpus(sweep, functions.items), "address"),
            {f"node{node.id}": node for node in read_numa(sweep).items},
            {str(group.id): group.pci for group in groups.items},
        )


def named(found: Found[Any], key: str) -> dict[str, object]:
    for problem in found.problems:
        problem.message.encode()
        assert problem.message.isprintable()
        assert problem.path.startswith("/")
    return {getattr(item, key): item for item in found.items}


def build(path: Path) -> Host:
    """Two of each kind."""
    host = Host(path, vfio="cdev")
    host.numa_node(0, cpus="0-3")
    host.numa_node(1, cpus="4-7")
    host.pci_bridge("0000:00:04.0", bus=5, iommu_group=4)
    for function in (0, 1):
        host.pci(f"0000:05:00.{function}", vendor="10de", device="2330", driver="vfio-pci", iommu_group=12)
    gpu = host.pci(
        "0000:41:00.0", vendor="10de", device="2335", driver="nvidia", iommu_group=20, sriov_total=2
    )
    for _ in range(2):
        gpu.vf(driver="nvidia", vgpu_types={1414: "H200X-1-18C"})
    gpu.vfs[0].set_vgpu_type(1414)
    t4 = host.pci("0000:06:00.0", vendor="10de", device="1eb8", driver="nvidia", iommu_group=3, numa_node=1)
    parent = host.mdev_parent(t4, {"nvidia-222": MdevType(16, "GRID T4-1B", "a")})
    parent.create("nvidia-222", UUIDS[0], iommu_group=50)
    parent.create("nvidia-222", UUIDS[1], iommu_group=51)
    host.mdev_parent("mtty", {"mtty-1": MdevType(2, "Serial")}).create("mtty-1", UUIDS[2], iommu_group=52)
    xhci = host.pci("0000:00:14.0", vendor="8086", device="a36d", driver="xhci_hcd", iommu_group=5)
    host.usb("1-1", vendor="1050", product="0407", serial="1", manufacturer="Y", name="K", controller=xhci)
    host.usb("1-2.3", vendor="46f4", product="0001")
    host.misc_capacity(tdx=10)
    host.selinux("enforcing")
    return host


@dataclass(frozen=True)
class Machine:
    """The tree, its files and links by name, and what is read when nothing is wrong."""

    root: Path
    entries: tuple[str, ...]
    facts: Facts


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    path = Path(tempfile.mkdtemp(prefix="dray-garbage-", dir=memory))
    try:
        build(path)
        names = sorted(str(entry.relative_to(path)) for entry in path.rglob("*") if _is_read(entry))
        entries = [name for name in names if not IGNORED.search(name)]
        yield Machine(path, tuple(entries), read_all(HostRoot(path)))
    finally:
        shutil.rmtree(path)


def _is_read(entry: Path) -> bool:
    """Links and files with a text; those that are only written, nobody looks into."""
    return entry.is_symlink() or (entry.is_file() and bool(entry.stat().st_mode & 0o400))


def owner(entry: str) -> str:
    """The device whose file this is; a link's own name counts."""
    found = OWNER.findall(f"/{entry}")
    return found[-1] if found else ""


def put(place: Path, content: bytes | str | None) -> None:
    """A file with these bytes, a link with this text, or (None) a directory in its place."""
    place.unlink()
    if content is None:
        place.mkdir()
    elif isinstance(content, bytes):
        place.write_bytes(content)
    else:
        place.symlink_to(content)


def restore(place: Path, content: bytes | str) -> None:
    if not place.is_symlink() and place.is_dir():
        place.rmdir()
    else:
        place.unlink(missing_ok=True)
    put_back = place.symlink_to if isinstance(content, str) else place.write_bytes
    put_back(content)  # type: ignore[arg-type]


CONTENTS = st.one_of(
    st.none(),
    st.binary(max_size=64),
    st.sampled_from(
        [b"", b"\n", b"0\n", b"-1\n", b"999999999999\n", b"0x\n", b"PCI_ID=\n", b"BUSNUM=9\n", b"\x00"]
    ),
    st.sampled_from(["/", ".", "../gone", "self", "/dev/kvm", "a" * 300, "\udc80\udcff", "\n\x1b[2J"]),
)


def others(facts: dict[str, object], broken: str) -> dict[str, object]:
    return {name: fact for name, fact in facts.items() if name != broken}


def check(machine: Machine, entry: str, content: bytes | str | None) -> None:
    """Break one entry, look, and mend it again."""
    place = machine.root / entry
    old: bytes | str = os.readlink(place) if place.is_symlink() else place.read_bytes()
    put(place, place.name if content == "self" else content)
    try:
        now = read_all(HostRoot(machine.root))
    finally:
        restore(place, old)
    broken = owner(entry)
    assert others(machine.facts.pci, broken).items() <= now.pci.items()
    assert others(machine.facts.vgpus, broken).items() <= now.vgpus.items()
    assert others(machine.facts.usb, broken).keys() <= now.usb.keys()  # a node or a controller may be missed
    assert others(machine.facts.numa, broken).items() <= now.numa.items()
    assert others(machine.facts.parents, broken).items() <= now.parents.items()
    assert others(machine.facts.mdevs, broken).keys() <= now.mdevs.keys()  # a type's name belongs to several
    assert machine.facts.groups.keys() <= now.groups.keys()


@settings(
    max_examples=campaign(150, 5000),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_one_file_hides_one_device_at_most(machine: Machine, data: st.DataObject) -> None:
    entry = data.draw(st.sampled_from(machine.entries))
    check(machine, entry, data.draw(CONTENTS))


READ = re.compile(
    r"/(uevent|numa_node|class|vendor|revision|driver|iommu_group|physfn|virtfn\d|sriov_\w+vfs|current_vgpu_type|serial|"
    r"creatable_vgpu_types|mdev_type|name|available_instances|device_api|cpulist|meminfo|idVendor|subsystem_vendor)$"
    r"|^sys/bus/\w+/devices/|^sys/kernel/iommu_groups|^sys/class/mdev_bus/|^sys/fs"
)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"", None, "../gone"], ids=repr)
def test_every_file_that_is_read(machine: Machine, content: bytes | str | None) -> None:
    entries = [entry for entry in machine.entries if READ.search(f"/{entry}".removeprefix("/"))]
    assert len(entries) > 100
    for entry in entries[:: campaign(3, 1)]:
        check(machine, entry, content)


def test_the_machine_is_whole_again(machine: Machine) -> None:
    assert read_all(HostRoot(machine.root)) == machine.facts
    sizes = {kind: len(getattr(machine.facts, kind)) for kind in Facts.__dataclass_fields__}
    assert sizes == {"pci": 8, "usb": 3, "mdevs": 3, "parents": 2, "vgpus": 2, "numa": 2, "groups": 10}
