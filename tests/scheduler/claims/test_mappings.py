from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.api.quantity import Quantity
from dray.api.resource import ResourceSlice
from dray.scheduler.claims.mappings import DeviceMappings
from tests.scheduler.claims.objects import DRIVER, device, slice_of


def part(
    name: str, *devices: Any, generation: int = 1, owner: str = "worker", node: str = ""
) -> ResourceSlice:
    pool = {"name": owner, "generation": generation, "resourceSliceCount": 1}
    one = slice_of(owner, *devices, pool=pool, nodeName=node or owner)
    return msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, name=name))


def taking(name: str, cpu: str) -> dict[str, Any]:
    return device(name, nodeAllocatableResourceMappings={"cpu": {"allocationMultiplier": cpu}})


def cpu(known: DeviceMappings, name: str, pool: str = "worker", driver: str = DRIVER) -> Quantity | None:
    found = known.of(pool, driver, pool, name)
    return found["cpu"].allocation_multiplier if found else None


def test_a_device_is_known_by_driver_pool_and_name() -> None:
    known = DeviceMappings()
    assert known.is_empty
    known.set_slice(part("a", taking("g0", "2"), "plain"))
    known.set_slice(part("b", taking("g0", "3"), owner="worker-2"))
    assert not known.is_empty
    assert cpu(known, "g0") == Quantity("2")
    assert cpu(known, "g0", "worker-2") == Quantity("3")
    assert cpu(known, "g0", driver="other") is None
    assert known.of("worker", DRIVER, "worker", "plain") == {}
    assert known.of("worker", DRIVER, "worker", "gone") is None
    assert known.of("worker", DRIVER, "nowhere", "g0") is None


def test_of_several_generations_the_newest_counts() -> None:
    known = DeviceMappings()
    known.set_slice(part("new", taking("g0", "4"), generation=2))
    known.set_slice(part("old", taking("g0", "2"), generation=1))
    assert cpu(known, "g0") == Quantity("4")
    known.set_slice(part("new", "g0", generation=2))
    assert known.of("worker", DRIVER, "worker", "g0") == {}
    known.set_slice(part("new", "g1", generation=2))
    assert cpu(known, "g0") == Quantity("2"), "who has the device has it still, while its slices are replaced"


@pytest.mark.parametrize("devices", [[], ["g0"], [taking("g0", "64")]])
def test_a_newer_slice_of_another_node_says_nothing_of_this_nodes_devices(devices: list[Any]) -> None:
    """The token of a node may write slices that name this node into any pool."""
    known = DeviceMappings()
    known.set_slice(part("mine", taking("g0", "2")))
    known.set_slice(part("theirs", *devices, generation=2**40, node="thief"))
    assert cpu(known, "g0") == Quantity("2")


def test_slices_change_move_and_go() -> None:
    known = DeviceMappings()
    known.set_slice(part("a", taking("g0", "2")))
    known.set_slice(part("a", taking("g0", "2"), owner="worker-2"))
    assert cpu(known, "g0") is None
    assert cpu(known, "g0", "worker-2") == Quantity("2")
    for _ in range(2):
        known.remove_slice(part("a"))
        assert known.is_empty
        assert known.of("worker-2", DRIVER, "worker-2", "g0") is None
