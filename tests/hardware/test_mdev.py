from __future__ import annotations

from pathlib import Path

import pytest

from dray.hardware.facts import Found
from dray.hardware.host_root import HostRoot
from dray.hardware.mdev import (
    Mdev,
    MdevParent,
    MdevType,
    read_mdev_cards,
    read_mdev_parents,
    read_mdevs,
    selectable_name,
)
from dray.testing.host import Host
from dray.testing.host import MdevType as Offer

UUID = "83b8f4f2-509f-382f-3c1e-e6bfe0fa100{}"
INSTANCES = "/sys/bus/mdev/devices"
TYPES = "/sys/class/mdev_bus/0000:06:00.0/mdev_supported_types"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A T4 with one instance of a named type, an Intel GPU with one of a type without name."""
    host = Host(tmp_path / "root")
    t4 = host.pci("0000:06:00.0", vendor="10de", device="1eb8", driver="nvidia", iommu_group=3, numa_node=1)
    intel = host.pci("0000:00:02.0", vendor="8086", device="5912", driver="i915", iommu_group=1)
    parent = host.mdev_parent(
        t4,
        {
            "nvidia-222": Offer(16, "GRID T4-1B", description="num_heads=4"),
            "nvidia-223": Offer(8, "GRID T4-2B"),
        },
    )
    parent.create("nvidia-222", UUID.format(1), iommu_group=50)
    host.mdev_parent(intel, {"i915-GVTg_V5_4": Offer(1)}).create(
        "i915-GVTg_V5_4", UUID.format(2), iommu_group=51
    )
    return host


def parents(host: Host) -> Found[MdevParent]:
    return read_mdev_parents(HostRoot(host.root))


def mdevs(host: Host) -> Found[Mdev]:
    return read_mdevs(HostRoot(host.root))


def test_parents_and_their_types(host: Host) -> None:
    found = parents(host)
    assert found.problems == ()
    intel, t4 = found.items
    assert intel == MdevParent(
        "0000:00:02.0", (MdevType("i915-GVTg_V5_4", "i915-GVTg_V5_4", 0, device_api="vfio-pci"),)
    )
    assert (t4.name, t4.is_pci, t4.numa_node) == ("0000:06:00.0", True, 1)
    assert t4.types == (
        MdevType("nvidia-222", "GRID_T4-1B", 15, "GRID T4-1B", "num_heads=4", "vfio-pci"),
        MdevType("nvidia-223", "GRID_T4-2B", 7, "GRID T4-2B", "", "vfio-pci"),
    )


def test_instances(host: Host) -> None:
    assert mdevs(host) == Found(
        (
            Mdev(UUID.format(1), "nvidia-222", "GRID_T4-1B", "0000:06:00.0", 50, 1, ("vfio0",)),
            Mdev(UUID.format(2), "i915-GVTg_V5_4", "i915-GVTg_V5_4", "0000:00:02.0", 51, None, ("vfio1",)),
        )
    )


def test_a_parent_that_is_not_pci(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.mdev_parent("mtty", {"mtty-1": Offer(24, "Single port serial")}).create("mtty-1", UUID.format(1))
    (parent,), (mdev,) = parents(host).items, mdevs(host).items
    assert (parent.name, parent.is_pci) == ("mtty", False)
    assert (mdev.parent, mdev.type_name, mdev.numa_node) == ("mtty", "Single_port_serial", None)
    assert parents(host).problems == mdevs(host).problems == ()


def test_a_host_without_mdevs(tmp_path: Path) -> None:
    host = Host(tmp_path)
    assert (parents(host), mdevs(host)) == (Found(), Found())


@pytest.mark.parametrize(
    ("text", "name"),
    [("FAKE 123\n", "FAKE_123"), (" A ", "_A_"), ("\tB\n", "B"), ("C D  E", "C_D__E"), ("", "")],
)
def test_spaces_become_underscores_before_the_ends_are_trimmed(text: str, name: str) -> None:
    assert selectable_name(text) == name


def test_a_name_that_is_no_text_gives_way_to_the_id(host: Host) -> None:
    host.garbage(f"{TYPES}/nvidia-222/name")
    assert [mdev.type_name for mdev in mdevs(host).items] == ["nvidia-222", "i915-GVTg_V5_4"]
    assert "type name not known" in mdevs(host).problems[0].message
    assert [kind.name for kind in parents(host).items[1].types] == ["nvidia-222", "GRID_T4-2B"]


@pytest.mark.parametrize("text", [b"", b"many\n", b"-1\n", b"\xff"])
def test_a_count_that_is_no_number_hides_the_type(host: Host, text: bytes) -> None:
    """Upstream panics on an empty file."""
    host.garbage(f"{TYPES}/nvidia-222/available_instances", text)
    found = parents(host)
    assert [kind.id for parent in found.items for kind in parent.types] == ["i915-GVTg_V5_4", "nvidia-223"]
    assert [problem.path for problem in found.problems] == [f"{TYPES}/nvidia-222/available_instances"]
    assert len(mdevs(host).items) == 2


def test_only_the_first_line_of_a_count_matters(host: Host) -> None:
    host.garbage(f"{TYPES}/nvidia-222/available_instances", b"3\nmore\n")
    assert parents(host).items[1].types[0].available == 3


def test_texts_a_type_need_not_have(host: Host) -> None:
    host.garbage(f"{TYPES}/nvidia-222/description")
    host.vanish(f"{TYPES}/nvidia-222/device_api")
    found = parents(host)
    kind = found.items[1].types[0]
    assert (kind.description, kind.device_api) == ("", "")
    assert [problem.path for problem in found.problems] == [f"{TYPES}/nvidia-222/description"]


def test_a_parent_without_types(host: Host) -> None:
    host.vanish(TYPES)
    assert parents(host).items[1].types == ()


@pytest.mark.parametrize("name", ["mdev_type", "iommu_group"])
def test_links_that_cannot_be_read_hide_the_instance(host: Host, name: str) -> None:
    host.unreadable(f"{INSTANCES}/{UUID.format(1)}/{name}")
    found = mdevs(host)
    assert [mdev.uuid for mdev in found.items] == [UUID.format(2)]
    assert [problem.path for problem in found.problems] == [f"{INSTANCES}/{UUID.format(1)}/{name}"]


def test_names_and_links_that_say_nothing_hide_the_instance(host: Host) -> None:
    host.tree.link(f"{INSTANCES[1:]}/odd", "sys/bus/mdev")
    host.link(f"{INSTANCES}/{UUID.format(9)}", "../devices")
    host.tree.mkdir(f"{INSTANCES[1:]}/{UUID.format(8)}")
    found = mdevs(host)
    assert len(found.items) == 2
    assert {problem.path for problem in found.problems} == {
        f"{INSTANCES}/{name}" for name in ("odd", UUID.format(8), UUID.format(9))
    }


def test_an_instance_without_group(host: Host) -> None:
    host.vanish(f"{INSTANCES}/{UUID.format(1)}/iommu_group")
    assert mdevs(host).items[0].iommu_group is None


def test_the_node_of_a_parent_that_cannot_be_read(host: Host) -> None:
    host.garbage("/sys/bus/pci/devices/0000:06:00.0/numa_node", b"west\n")
    assert mdevs(host).items[0].numa_node is None
    assert len(mdevs(host).problems) == 1
    host.dangle("/sys/bus/pci/devices/0000:06:00.0")
    assert mdevs(host).items[0].numa_node is None
    assert "NUMA node not known" in mdevs(host).problems[0].message


def test_the_card_is_known_by_the_link_alone(host: Host, tmp_path: Path) -> None:
    root = HostRoot(host.root)
    host.vanish(f"{INSTANCES}/{UUID.format(1)}/mdev_type")
    host.link(f"{INSTANCES}/{UUID.format(3)}", f"../../../devices/gone/0000:06:00.0/{UUID.format(3)}")
    host.link(f"{INSTANCES}/{UUID.format(4)}", UUID.format(4))
    host.link(f"{INSTANCES}/{UUID.format(5)}", f"../{UUID.format(5)}")
    host.file(f"{INSTANCES}/{UUID.format(6)}", "no link")
    host.link(f"{INSTANCES}/odd", "../a/b")
    assert read_mdev_cards(root) == {
        UUID.format(1): "0000:06:00.0",
        UUID.format(2): "0000:00:02.0",
        UUID.format(3): "0000:06:00.0",
        UUID.format(4): "",
        UUID.format(5): "",
        UUID.format(6): "",
    }
    assert read_mdev_cards(HostRoot(tmp_path)) == {}
