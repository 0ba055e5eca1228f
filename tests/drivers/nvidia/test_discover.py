from __future__ import annotations

from pathlib import Path

import pytest

from dray.api.quantity import Quantity
from dray.drivers.contract import Device, Discovery, Health
from dray.drivers.naming import card_parts
from dray.drivers.nvidia.config import NvidiaReplicas, NvidiaTimeSlicing
from dray.drivers.nvidia.names import partition_of
from dray.hardware.host_root import HostRoot
from dray.hardware.nvml.codes import Code
from dray.hardware.nvml.facts import Placement
from tests.drivers.nvidia.cards import watched

UUID = "GPU-94e20850-17a3-0faa-294e-e57b84a9d254"


def amounts(device: Device) -> dict[str, str]:
    return {name: str(capacity.value) for name, capacity in device.capacity.items()}


def test_a_whole_card_is_published_as_nvidias_driver_does(tmp_path: Path) -> None:
    host = watched(tmp_path, "h200")
    (device,) = host.devices
    assert device.name == "gpu-0"
    assert device.id == UUID
    assert device.attributes == {
        "type": "gpu",
        "uuid": UUID,
        "productName": "NVIDIA H200",
        "brand": "Nvidia",
        "architecture": "Hopper",
        "addressingMode": "None",
        "resource.kubernetes.io/pciBusID": "0000:00:06.0",
    }
    assert device.versions == {
        "cudaComputeCapability": "9.0.0",
        "driverVersion": "580.159.4",
        "cudaDriverVersion": "13.0.0",
    }
    assert device.capacity["memory"].value == Quantity("150754820096")
    assert set(device.capacity) == {"memory"}
    assert (device.resource, device.health, device.taints, device.consumes) == (
        "nvidia.com/gpu",
        Health.HEALTHY,
        (),
        (),
    )
    assert (device.paths, device.addresses) == (("/dev/nvidia0",), (UUID,))
    assert (device.pcie_root, device.numa_node) == ("pci0000:00", None)


def test_names_follow_minors_and_order_follows_the_bus(tmp_path: Path) -> None:
    host = watched(tmp_path, "eight-h100")
    assert host.names == ["gpu-2", "gpu-3", "gpu-0", "gpu-1", "gpu-6", "gpu-7", "gpu-4", "gpu-5"]
    assert [device.numa_node for device in host.devices] == [0] * 4 + [1] * 4
    assert all(device.paths == (f"/dev/nvidia{device.name.removeprefix('gpu-')}",) for device in host.devices)


def test_the_same_machine_gives_the_same_devices(tmp_path: Path) -> None:
    for name, config in (("h200", {"dynamic_mig": True}), ("a100-mig", {"pass_through": True})):
        first = watched(tmp_path / f"{name}-1", name, **config)
        second = watched(tmp_path / f"{name}-2", name, **config)
        assert first.devices == second.devices
        assert first.look() == first.look()
        with first.root.sweep() as sweep:
            assert first.driver.discover(sweep, first.devices).devices == first.devices


def test_mig_devices_that_exist_take_the_place_of_the_card(tmp_path: Path) -> None:
    host = watched(tmp_path, "a100-mig")
    assert host.names == ["gpu-0-mig-1g5gb-19-0", "gpu-0-mig-2g10gb-14-2", "gpu-0-mig-3g20gb-9-4", "gpu-1"]
    device = host.named("gpu-0-mig-2g10gb-14-2")
    parent = host.machine.cards.cards[0].uuid
    assert {key: device.attributes[key] for key in ("type", "profile", "parentUUID", "uuid")} == {
        "type": "mig",
        "profile": "2g.10gb",
        "parentUUID": parent,
        "uuid": device.id,
    }
    assert device.id.startswith("MIG-")
    assert amounts(device) == {
        "multiprocessors": "28",
        "copyEngines": "2",
        "decoders": "1",
        "encoders": "0",
        "jpegEngines": "0",
        "ofaEngines": "0",
        "memory": "9856Mi",
        "memorySlice2": "1",
        "memorySlice3": "1",
    }
    assert device.paths == (
        "/dev/nvidia0",
        "/dev/nvidia-caps/nvidia-cap30",
        "/dev/nvidia-caps/nvidia-cap31",
    )
    assert device.resource == ""  # strategy none: claims alone get it
    assert device.numa_node == 0


def test_a_divided_card_without_mig_devices_offers_nothing(tmp_path: Path) -> None:
    host = watched(tmp_path, "h200")
    host.machine.cards.set_mig(UUID, on=True)
    assert host.look().devices == ()


@pytest.mark.parametrize(
    ("strategy", "id_strategy", "expected"),
    [
        (
            "mixed",
            "index",
            [
                ("nvidia.com/mig-1g.5gb", "0:0"),
                ("nvidia.com/mig-2g.10gb", "0:1"),
                ("nvidia.com/mig-3g.20gb", "0:2"),
                ("nvidia.com/gpu", "1"),
            ],
        ),
        ("none", "index", [("", "0:0"), ("", "0:1"), ("", "0:2"), ("nvidia.com/gpu", "1")]),
    ],
)
def test_plugins_offer_mig_devices_by_strategy(
    tmp_path: Path, strategy: str, id_strategy: str, expected: list[tuple[str, str]]
) -> None:
    host = watched(tmp_path, "a100-mig", mig_strategy=strategy, device_id_strategy=id_strategy)
    assert [(device.resource, device.addresses[0]) for device in host.devices] == expected


def test_the_strategy_single_needs_one_profile_everywhere(tmp_path: Path) -> None:
    host = watched(tmp_path, "a100-mig", mig_strategy="single")
    found = host.look()
    assert [device.resource for device in found.devices] == ["", "", "", "nvidia.com/gpu"]
    (problem,) = found.problems
    assert "1g.5gb, 2g.10gb, 3g.20gb" in problem.message
    assert "gpu-1" in problem.message
    host.machine.cards.take_away(host.machine.cards.cards[1].uuid)
    del host.machine.cards.cards[0].instances[1:]
    found = host.look()
    assert [(device.name, device.resource) for device in found.devices] == [
        ("gpu-0-mig-1g5gb-19-0", "nvidia.com/gpu")
    ]
    assert found.problems == ()


def test_a_mig_device_that_shares_its_instance_is_told_and_not_offered(tmp_path: Path) -> None:
    host = watched(tmp_path, "a100-mig")
    instance = host.machine.cards.cards[0].instances[2]
    instance.compute_slices = 1
    found = host.look()
    assert "gpu-0-mig-3g20gb-9-4" not in host.names
    assert [problem.path for problem in found.problems] == [instance.uuid]


def test_a_mig_device_without_its_files_is_told_and_not_offered(tmp_path: Path) -> None:
    host = watched(tmp_path, "a100-mig")
    (tmp_path / "proc/driver/nvidia/capabilities/gpu0/mig/gi7/access").unlink()
    found = host.look()
    assert len(found.devices) == 3
    assert "is not offered" in found.problems[0].message


def test_a_hopper_card_is_offered_whole_and_in_parts(tmp_path: Path) -> None:
    host = watched(tmp_path, "h200", dynamic_mig=True)
    found = host.look()
    assert len(found.devices) == 26
    whole, part = host.named("gpu-0"), host.named("gpu-0-mig-1g18gb-me-20-3")
    assert partition_of(part.name) is not None
    assert "uuid" not in part.attributes
    assert part.attributes["profile"] == "1g.18gb+me"
    assert not [name for name in part.capacity if name.startswith("memorySlice")]
    (counters,) = found.counters
    assert counters.name == "gpu-0-counter-set"
    assert {name: str(counter.value) for name, counter in counters.counters.items()} == {
        "multiprocessors": "132",
        "copy-engines": "8",
        "decoders": "7",
        "encoders": "0",
        "jpeg-engines": "7",
        "ofa-engines": "1",
        "memory": "140Gi",
        **{f"memory-slice-{index}": "1" for index in range(8)},
    }
    assert whole.consumes[0].counters == counters.counters
    taken = part.consumes[0].counters
    assert [name for name in taken if name.startswith("memory-slice")] == ["memory-slice-3"]
    assert str(taken["multiprocessors"].value) == "16"
    assert all(device.resource == "" for device in found.devices if device is not whole)


def test_parts_never_draw_more_than_there_is(tmp_path: Path) -> None:
    """Each profile as often as it fits: what the driver would make, the counters must allow."""
    host = watched(tmp_path, "h200", dynamic_mig=True)
    (counters,) = host.look().counters
    for profile, count in ((19, 7), (15, 4), (14, 3), (9, 2), (5, 1), (0, 1)):
        parts = [
            one for one in host.devices if (found := partition_of(one.name)) and found.profile_id == profile
        ]
        assert len(parts) == count
        for name, counter in counters.counters.items():
            drawn = [
                one.consumes[0].counters[name].value for one in parts if name in one.consumes[0].counters
            ]
            assert sum(value.value() for value in drawn) <= counter.value.value(), (profile, name)


@pytest.mark.parametrize(("is_on", "expected"), [(True, 25), (False, 1)])
def test_an_ampere_card_is_offered_as_its_mode_is(tmp_path: Path, is_on: bool, expected: int) -> None:
    host = watched(tmp_path, "a100-mig", dynamic_mig=True)
    card = host.machine.cards.cards[0 if is_on else 1]
    host.machine.cards.cards[:] = [card]
    found = host.look()
    assert len(found.devices) == expected
    assert len(found.counters) == int(is_on)


def test_what_cannot_be_divided_is_offered_whole(tmp_path: Path) -> None:
    host = watched(tmp_path, "h200", dynamic_mig=True)
    host.machine.cards.cards[0].answers["virtualizationMode"] = 2
    found = host.look()
    assert [device.name for device in found.devices] == ["gpu-0"]
    assert found.counters == ()
    assert set(found.devices[0].capacity) == {"memory"}


def test_no_two_owners_of_one_part_of_a_card(tmp_path: Path) -> None:
    """Whole, in parts, for a VM or through another kind: what overlaps has a part in common, and nothing else has."""
    host = watched(tmp_path, "eight-h100", dynamic_mig=True, pass_through=True)
    foreign = ("pci:0000:1b:00.0", *card_parts("0000:1b:00.0"))
    own = [device for device in host.devices if "0000:1b:00.0" in str(device.hardware)]
    assert len(own) == 27
    for device in own:
        assert not set(device.parts).isdisjoint(foreign)
        place = partition_of(device.name)
        for other in own:
            second = partition_of(other.name)
            overlap = not set(device.parts).isdisjoint(other.parts)
            if place is None or second is None:
                assert overlap
            else:
                slices = set(_slices(device)) & set(_slices(other))
                assert overlap == bool(slices)
    others = [device for device in host.devices if device not in own]
    assert all(set(device.parts).isdisjoint(other.parts) for device in own for other in others)


def _slices(device: Device) -> list[str]:
    return [name for name in device.consumes[0].counters if name.startswith("memory-slice-")]


def test_shares_are_counted_and_renamed(tmp_path: Path) -> None:
    sharing = NvidiaTimeSlicing(
        rename_by_default=True,
        resources=(
            NvidiaReplicas(name="nvidia.com/gpu", replicas=4),
            NvidiaReplicas(name="nvidia.com/mig-1g.5gb", replicas=2),
        ),
    )
    host = watched(tmp_path, "a100-mig", mig_strategy="mixed", time_slicing=sharing)
    assert [(device.resource, device.shares) for device in host.devices] == [
        ("nvidia.com/mig-1g.5gb.shared", 2),
        ("nvidia.com/mig-2g.10gb", None),
        ("nvidia.com/mig-3g.20gb", None),
        ("nvidia.com/gpu.shared", 4),
    ]
    assert len(set(host.devices[3].share_ids)) == 4


def test_a_node_that_is_missing_makes_its_devices_unhealthy(tmp_path: Path) -> None:
    host = watched(tmp_path, "a100-mig")
    (tmp_path / "dev/nvidia0").unlink()
    host.look()
    assert [device.health is Health.HEALTHY for device in host.devices] == [False, False, False, True]
    assert host.devices[0].reason == "/dev/nvidia0 does not exist"


def test_a_card_that_only_shows_pictures_is_left_out(tmp_path: Path) -> None:
    host = watched(tmp_path, "h200")
    host.machine.cards.cards[0].answers["name"] = "NVIDIA DGX Display"
    assert host.look().devices == ()


def test_a_machine_without_the_driver_is_silent(tmp_path: Path) -> None:
    host = watched(tmp_path / "one", "h200")
    (tmp_path / "bare").mkdir()
    assert host.driver.discover(HostRoot(tmp_path / "bare")) == Discovery((), (), ("libnvidia-ml.so.1",))


def test_an_odd_version_is_left_out(tmp_path: Path) -> None:
    host = watched(tmp_path, "h200")
    host.machine.cards.system["driverVersion"] = "580.159.04.beta"
    (device,) = host.look().devices
    assert "driverVersion" not in device.versions


def test_a_card_that_refuses_a_question_hides_itself_alone(tmp_path: Path) -> None:
    host = watched(tmp_path, "eight-h100")
    host.machine.cards.cards[0].answers["minor"] = {"error": int(Code.UNKNOWN)}
    found = host.look()
    assert len(found.devices) == 7
    assert found.problems[0].path == "GPU 0"


def test_parts_say_when_they_are_there_already(tmp_path: Path) -> None:
    """A part keeps its name while it exists: claims hold it by that."""
    host = watched(tmp_path, "h200", dynamic_mig=True)
    before = host.names
    with host.machine.cards.open() as nvml:
        handle = nvml.handle(0)
        nvml.set_mig_mode(handle, on=True)
        nvml.create_compute_instance(handle, nvml.create_gpu_instance(handle, 14, Placement(2, 2)), 2)
    host.look()
    assert host.names == before
