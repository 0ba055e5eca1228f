from __future__ import annotations

import pytest

from dray.errors import ConflictError, HardwareError, InvalidError, NotFoundError
from dray.hardware.change import CreateMdev, RemoveMdev
from dray.hardware.change.access import Access
from dray.hardware.change.executor import Executor
from dray.testing.host import Host, MdevParent, MdevType

ONE = "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001"
TWO = "83b8f4f2-509f-382f-3c1e-e6bfe0fa1002"


@pytest.fixture
def card(host: Host) -> MdevParent:
    gpu = host.pci("0000:06:00.0", vendor="10de", device="1eb8", driver="nvidia", iommu_group=3)
    return host.mdev_parent(
        gpu, {"nvidia-222": MdevType(2, "GRID T4-1B"), "nvidia-223": MdevType(1)}, exclusive=True
    )


CREATE = CreateMdev("0000:06:00.0", "nvidia-222", ONE)


def test_create_and_undo(host: Host, card: MdevParent, executor: Executor, access: Access) -> None:
    assert not CREATE.is_so(access)
    made = executor.apply(CREATE)
    assert made.changed and made.undo == RemoveMdev(ONE)
    assert CREATE.is_so(access) and card.mdevs[ONE].type_id == "nvidia-222"
    assert (host.root / f"dev/vfio/{card.mdevs[ONE].group}").exists()
    undone = executor.undo(made)
    assert undone is not None and undone.changed and undone.undo == CREATE
    assert not card.mdevs and RemoveMdev(ONE).is_so(access)


def test_twice_is_fine(card: MdevParent, executor: Executor, host: Host) -> None:
    executor.apply(CREATE)
    again = executor.apply(CREATE)
    assert not again.changed and again.undo is None
    executor.apply(RemoveMdev(ONE))
    assert not executor.apply(RemoveMdev(ONE)).changed
    assert [write.path.rsplit("/", 1)[-1] for write in host.writes] == ["create", "remove"]


def test_a_virtual_parent(host: Host, executor: Executor) -> None:
    parent = host.mdev_parent("mtty", {"mtty-1": MdevType(24, "Single port serial")})
    assert executor.apply(CreateMdev("mtty", "mtty-1", ONE)).changed
    assert executor.apply(RemoveMdev(ONE)).undo == CreateMdev("mtty", "mtty-1", ONE)
    assert not parent.mdevs


def test_a_uuid_of_another_device_is_a_conflict(card: MdevParent, host: Host, executor: Executor) -> None:
    host.mdev_parent("mtty", {"mtty-1": MdevType(24)})
    executor.apply(CreateMdev("mtty", "mtty-1", ONE))
    with pytest.raises(ConflictError, match=f"{ONE} exists already, with type mtty-1 on mtty"):
        executor.apply(CREATE)
    assert not card.mdevs


def test_none_left_is_said_at_once(card: MdevParent, executor: Executor) -> None:
    executor.apply(CREATE)
    executor.apply(CreateMdev("0000:06:00.0", "nvidia-222", TWO))
    third = CreateMdev("0000:06:00.0", "nvidia-222", ONE.replace("1001", "1003"))
    for full in (third, CreateMdev("0000:06:00.0", "nvidia-223", third.uuid)):
        with pytest.raises(HardwareError, match=f"no instance of {full.type_id} left") as caught:
            executor.apply(full)
        assert caught.value.device == full.uuid and caught.value.path.endswith("available_instances")


def test_types_and_parents_that_are_not_there(card: MdevParent, executor: Executor) -> None:
    with pytest.raises(NotFoundError, match="offers no type nvidia-999"):
        executor.apply(CreateMdev("0000:06:00.0", "nvidia-999", ONE))
    with pytest.raises(NotFoundError, match=r"0000:07:00\.0"):
        executor.apply(CreateMdev("0000:07:00.0", "nvidia-222", ONE))


def test_a_slow_device_is_waited_for(host: Host, card: MdevParent, executor: Executor) -> None:
    host.delay_writes("*/create", 0.15)
    host.delay_writes("*/remove", 0.15)
    assert executor.apply(CREATE).changed and ONE in card.mdevs
    assert executor.apply(RemoveMdev(ONE)).changed and not card.mdevs


def test_a_driver_that_fails_in_silence(host: Host, card: MdevParent, quick: Executor) -> None:
    host.ignore_writes("*/create")
    with pytest.raises(HardwareError, match=f"{ONE}.*no device appeared in 1 s") as caught:
        quick.apply(CREATE)
    assert caught.value.path == "/sys/class/mdev_bus/0000:06:00.0/mdev_supported_types/nvidia-222/create"
    assert quick.apply(CREATE).changed  # it works the next time
    host.ignore_writes("*/remove")
    with pytest.raises(HardwareError, match="still there"):
        quick.apply(RemoveMdev(ONE))


def test_a_node_that_never_comes(host: Host, card: MdevParent, quick: Executor) -> None:
    node = host.root / "dev/vfio" / str(card.create("nvidia-222", ONE).group)
    node.unlink()
    with pytest.raises(HardwareError, match=rf"{node.name} did not appear"):
        quick.apply(CREATE)


def test_a_device_in_use_is_not_removed(host: Host, card: MdevParent, executor: Executor) -> None:
    executor.apply(CREATE)
    host.file("/proc/77/comm", "qemu-kvm\n")
    host.link("/proc/77/fd/9", f"/dev/vfio/{card.mdevs[ONE].group}")
    host.link("/proc/78/fd/9", "/dev/vfio/999")
    with pytest.raises(ConflictError, match=rf"{ONE} is in use by process 77 \(qemu-kvm\): stop it first"):
        executor.apply(RemoveMdev(ONE))
    assert ONE in card.mdevs
    host.vanish("/proc/77/fd/9")
    assert executor.apply(RemoveMdev(ONE)).changed


def test_a_broken_count_does_not_stop_us(host: Host, card: MdevParent, executor: Executor) -> None:
    host.garbage(f"{card.type_path('nvidia-222')}/available_instances")
    assert executor.apply(CREATE).changed


@pytest.mark.parametrize(
    "bad",
    [
        {"parent": "../0000:06:00.0"},
        {"parent": ""},
        {"type_id": "a/b"},
        {"type_id": ".."},
        {"uuid": ONE.upper()},
        {"uuid": f"{ONE}\n"},
        {"uuid": "x"},
    ],
)
def test_names_that_could_lead_elsewhere(bad: dict[str, str]) -> None:
    good = {"parent": "mtty", "type_id": "mtty-1", "uuid": ONE}
    with pytest.raises(InvalidError):
        CreateMdev(**(good | bad))
