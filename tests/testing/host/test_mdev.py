from __future__ import annotations

import os
from pathlib import Path

import pytest

from dray.errors import ConflictError, InvalidError, NotFoundError, UnavailableError
from dray.testing.host import Host, MdevParent, MdevType

UUID = "83b8f4f2-509f-382f-3c1e-e6bfe0fa{:04x}"
TYPES = {
    "nvidia-222": MdevType(16, "GRID T4-1B", "num_heads=4, framebuffer=1024M"),
    "nvidia-223": MdevType(8, "GRID T4-2B"),
    "i915-GVTg_V5_4": MdevType(1),
}


def left(parent: MdevParent) -> dict[str, int]:
    return {name: int((parent.type_path(name) / "available_instances").read_text()) for name in parent.types}


@pytest.fixture
def parent(tmp_path: Path) -> MdevParent:
    host = Host(tmp_path)
    gpu = host.pci("0000:06:00.0", vendor="10de", device="1eb8", driver="nvidia", iommu_group=3, numa_node=1)
    return host.mdev_parent(gpu, TYPES)


def test_an_instance_reads_as_on_a_host(parent: MdevParent, tmp_path: Path) -> None:
    mdev = parent.create("nvidia-222", UUID.format(1), iommu_group=33)
    link = tmp_path / "sys/bus/mdev/devices" / mdev.uuid
    assert os.readlink(link).split("/")[-2] == "0000:06:00.0"
    assert (link / "mdev_type/name").read_text() == "GRID T4-1B\n"
    assert (link / "mdev_type").resolve().name == "nvidia-222"
    assert (link / "iommu_group").resolve().name == "33"
    assert (tmp_path / "dev/vfio/33").exists()
    assert (
        tmp_path / "sys/class/mdev_bus/0000:06:00.0/mdev_supported_types/nvidia-222/devices" / mdev.uuid
    ).exists()
    assert (parent.type_path("nvidia-222") / "description").exists()
    assert not (parent.type_path("i915-GVTg_V5_4") / "name").exists()
    mdev.remove()
    mdev.remove()
    assert not mdev.present
    assert not (tmp_path / "dev/vfio/33").exists()
    assert [path for path in tmp_path.rglob("*") if mdev.uuid in path.name] == []


def test_what_one_type_takes_the_others_lose(parent: MdevParent) -> None:
    made = [parent.create("nvidia-222", UUID.format(number)) for number in range(3)]
    assert left(parent) == {"i915-GVTg_V5_4": 0, "nvidia-222": 13, "nvidia-223": 6}
    made[0].remove()
    assert left(parent) == {"i915-GVTg_V5_4": 0, "nvidia-222": 14, "nvidia-223": 7}
    for mdev in made:
        mdev.remove()
    assert left(parent) == {"i915-GVTg_V5_4": 1, "nvidia-222": 16, "nvidia-223": 8}


def test_an_exclusive_parent_makes_one_type_at_a_time(tmp_path: Path) -> None:
    host = Host(tmp_path)
    gpu = host.pci("0000:06:00.0", vendor="10de", device="1eb8", driver="nvidia", iommu_group=3)
    parent = host.mdev_parent(gpu, TYPES, exclusive=True)
    mdev = parent.create("nvidia-222", UUID.format(1))
    assert left(parent) == {"i915-GVTg_V5_4": 0, "nvidia-222": 15, "nvidia-223": 0}
    mdev.remove()
    assert left(parent)["nvidia-223"] == 8


def test_refusals_are_the_kernels(parent: MdevParent) -> None:
    parent.create("nvidia-222", UUID.format(1))
    with pytest.raises(ConflictError, match="exists"):
        parent.create("nvidia-223", UUID.format(1).upper())
    with pytest.raises(InvalidError):
        parent.create("nvidia-222", "no-uuid")
    with pytest.raises(NotFoundError, match="nvidia-223"):
        parent.create("nvidia-9", UUID.format(2))
    for number in range(2, 17):
        parent.create("nvidia-222", UUID.format(number))
    with pytest.raises(UnavailableError):
        parent.create("nvidia-222", UUID.format(17))


def test_a_virtual_parent(tmp_path: Path) -> None:
    host = Host(tmp_path)
    parent = host.mdev_parent("mtty", {"mtty-1": MdevType(24, "Single port serial")})
    mdev = parent.create("mtty-1", UUID.format(1))
    assert parent.name == "mtty"
    assert os.readlink(tmp_path / "sys/class/mdev_bus/mtty") == "../../devices/virtual/mtty/mtty"
    assert (mdev.path / "driver").resolve().name == "mtty"


def test_groups_take_the_lowest_free_number(parent: MdevParent) -> None:
    groups = [parent.create("nvidia-222", UUID.format(number)).group for number in range(4)]
    assert groups == [0, 1, 2, 4]  # 3 is the card's own
    parent.mdevs[UUID.format(1)].remove()
    assert parent.create("nvidia-222", UUID.format(9)).group == 1


def test_unplugging_the_card_takes_its_instances(tmp_path: Path) -> None:
    host = Host(tmp_path)
    gpu = host.pci("0000:06:00.0", vendor="10de", device="1eb8", driver="nvidia", iommu_group=3)
    parent = host.mdev_parent(gpu, TYPES)
    mdev = parent.create("nvidia-222", UUID.format(1))
    gpu.unplug()
    assert not mdev.present
    assert os.listdir(tmp_path / "sys/bus/mdev/devices") == []
    gpu.replug()
    assert left(parent)["nvidia-222"] == 16


def test_a_card_is_a_parent_once(parent: MdevParent, tmp_path: Path) -> None:
    with pytest.raises(ConflictError, match="parent"):
        parent._bus.add(parent.owner, TYPES, "x", False)
