from __future__ import annotations

import msgspec
import pytest

from dray.cdi.edits import ContainerEdits, DeviceNode, Mount, merge
from dray.errors import InvalidError

VFIO = DeviceNode("/dev/vfio/vfio", "/dev/vfio/vfio", "mrw")


def group(number: int) -> ContainerEdits:
    path = f"/dev/vfio/{number}"
    return ContainerEdits(device_nodes=(VFIO, DeviceNode(path, path, "mrw")))


def test_nothing_merges_to_nothing() -> None:
    assert merge([]) == ContainerEdits()
    assert not merge([ContainerEdits()])


def test_what_is_said_twice_counts_once_at_its_first_place() -> None:
    merged = merge([group(7), group(3), group(7)])
    assert [node.host_path for node in merged.device_nodes] == [
        "/dev/vfio/vfio",
        "/dev/vfio/7",
        "/dev/vfio/3",
    ]
    assert merge([merged, merged]) == merged


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        ("mrw", "rwm", "mrw"),
        ("rw", "r", "rw"),
        ("r", "w", "rw"),
        ("r", "mr", "rm"),
        ("m", "wr", "rwm"),
    ],
)
def test_a_node_gets_the_permissions_of_both(first: str, second: str, both: str) -> None:
    parcels = [ContainerEdits(device_nodes=(DeviceNode("/dev/a", "/dev/a", one),)) for one in (first, second)]
    assert merge(parcels).device_nodes == (DeviceNode("/dev/a", "/dev/a", both),)


def test_a_mount_is_writable_if_one_needs_it() -> None:
    parcels = [ContainerEdits(mounts=(Mount("/a", "/b", read_only=one),)) for one in (True, False, True)]
    assert merge(parcels).mounts == (Mount("/a", "/b"),)


def test_all_parts_are_kept() -> None:
    one = ContainerEdits(
        env=(("A", "1"),),
        mounts=(Mount("/m", "/m"),),
        annotations=(("k", "v"),),
        cdi_devices=("nvidia.com/gpu=1",),
    )
    two = ContainerEdits(
        env=(("B", ""), ("A", "1")),
        device_nodes=(VFIO,),
        cdi_devices=("nvidia.com/gpu=0", "nvidia.com/gpu=1"),
    )
    assert merge([one, two]) == ContainerEdits(
        env=(("A", "1"), ("B", "")),
        device_nodes=(VFIO,),
        mounts=(Mount("/m", "/m"),),
        annotations=(("k", "v"),),
        cdi_devices=("nvidia.com/gpu=1", "nvidia.com/gpu=0"),
    )


def test_names_of_cdi_devices_are_whole() -> None:
    assert ContainerEdits(cdi_devices=("nvidia.com/gpu=0",))
    for name in ("gpu0", "/dev/nvidia0", "nvidia.com/gpu=", "nvidia.com/gpu=a b"):
        with pytest.raises(InvalidError, match="not a CDI device"):
            ContainerEdits(cdi_devices=(name,))


@pytest.mark.parametrize(
    ("one", "two", "field"),
    [
        (ContainerEdits(env=(("A", "1"),)), ContainerEdits(env=(("A", "2"),)), "A"),
        (ContainerEdits(annotations=(("k", "1"),)), ContainerEdits(annotations=(("k", "2"),)), "k"),
        (
            ContainerEdits(mounts=(Mount("/a", "/x"),)),
            ContainerEdits(mounts=(Mount("/b", "/x"),)),
            "/x",
        ),
        (
            ContainerEdits(device_nodes=(DeviceNode("/dev/a", "/dev/x"),)),
            ContainerEdits(device_nodes=(DeviceNode("/dev/b", "/dev/x"),)),
            "/dev/x",
        ),
    ],
)
def test_contradictions_are_refused(one: ContainerEdits, two: ContainerEdits, field: str) -> None:
    with pytest.raises(InvalidError, match=field) as caught:
        merge([one, two])
    assert caught.value.field == field


@pytest.mark.parametrize("permissions", ["", "rr", "x", "rwx", "RW"])
def test_permissions_are_the_cgroups(permissions: str) -> None:
    with pytest.raises(InvalidError, match="permissions"):
        DeviceNode("/dev/a", "/dev/a", permissions)


@pytest.mark.parametrize("path", ["", "dev/a", "/dev/\0"])
def test_paths_are_absolute(path: str) -> None:
    with pytest.raises(InvalidError, match="absolute"):
        DeviceNode(path, "/dev/a")
    with pytest.raises(InvalidError, match="absolute"):
        Mount("/a", path)


def test_edits_are_a_value_that_can_be_stored() -> None:
    edits = merge([group(7), ContainerEdits(env=(("A", "1"),), mounts=(Mount("/m", "/m"),))])
    stored = msgspec.json.encode(edits)
    assert msgspec.json.decode(stored, type=ContainerEdits) == edits
    assert len({edits, msgspec.json.decode(stored, type=ContainerEdits)}) == 1
    with pytest.raises(AttributeError):
        edits.env = ()  # type: ignore[misc]
