from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from dray.cdi.edits import ContainerEdits
from dray.dra.claims.asking import read_claim
from dray.dra.claims.metadata import MetadataFiles
from dray.dra.claims.planning import Plan, make_answer, make_plan
from dray.dra.parcels import PreparedDevice
from dray.drivers.contract import Health
from dray.errors import HardwareError, InvalidError, NotFoundError
from tests.dra.prepare_node import DRIVER, POOL, Node, claim_of, parameters, uid_of


@pytest.fixture
async def node(tmp_path: Path) -> Node:
    node = Node(tmp_path)
    for index in range(3):
        node.add(f"gpu-{index}")
    return node


def plan(node: Node, *results: object, strict: bool = True, **more: object) -> Plan:
    wanted = read_claim(claim_of(1, *results, **more), DRIVER, POOL)  # type: ignore[arg-type]
    return make_plan(wanted, node.options(), node.surroundings(), strict=strict)


async def test_what_the_driver_is_asked(node: Node) -> None:
    made = plan(
        node,
        {"request": "a/x", "device": "gpu-1", "consumedCapacity": {"memory": "1Gi"}},
        {"request": "a/x", "device": "gpu-0"},
        {"request": "b", "device": "gpu-2", "adminAccess": True},
        pod_claim="gpus",
        config=[parameters({"mode": 1}, "a")],
    )
    first, second = made.asked()
    assert (first.claim_uid, first.label, second.label) == (uid_of(1), "gpus/a", "gpus/b")
    assert first.devices == (node.devices["gpu-1"], node.devices["gpu-0"])
    assert first.consumed == ({"memory": "1Gi"}, {})
    assert (first.parameters, second.parameters) == (({"mode": 1},), ())
    assert (first.admin_access, second.admin_access) == (False, True)
    stored = made.entry.requests[0].asked(uid_of(1))
    assert [device.id for device in stored.devices] == ["gpu-1", "gpu-0"]
    assert [device.id for device in made.entry.held_devices()] == ["gpu-0", "gpu-1"]
    assert plan(node, "gpu-0").asked()[0].label == "claim-1/r"
    assert first.named == (True,)


async def test_a_container_that_asked_for_an_extended_resource_finds_the_plugins_variables(
    node: Node,
) -> None:
    annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
    node.devices["gpu-1"] = replace(node.devices["gpu-1"], resource="example.com/gpu")
    made = plan(node, {"request": "container-0-request-0", "device": "gpu-1"}, annotations=annotations)
    assert made.asked()[0].label == "example.com/gpu"


@pytest.mark.parametrize(
    ("annotated", "resources"),
    [("false", ("example.com/gpu",)), ("true", ("",)), ("true", ("example.com/gpu", "example.com/nic"))],
)
async def test_other_containers_find_the_claims_variables(
    node: Node, annotated: str, resources: tuple[str, ...]
) -> None:
    for number, resource in enumerate(resources):
        node.devices[f"gpu-{number}"] = replace(node.devices[f"gpu-{number}"], resource=resource)
    annotations = {"resource.kubernetes.io/extended-resource-claim": annotated}
    made = plan(node, *(f"gpu-{number}" for number in range(len(resources))), annotations=annotations)
    assert made.asked()[0].label == "claim-1/r"


async def test_what_is_refused(node: Node) -> None:
    node.devices["gpu-0"] = replace(node.devices["gpu-0"], health=Health.UNHEALTHY, reason="")
    with pytest.raises(HardwareError, match="no reason is known"):
        plan(node, "gpu-0")
    assert plan(node, "gpu-0", strict=False).entry.parts == {"test:gpu-0"}
    with pytest.raises(InvalidError, match=r"parameters\.x") as failure:
        plan(node, "gpu-1", config=[parameters({"x": 1})])
    assert failure.value.field == "parameters.x"
    with pytest.raises(NotFoundError):
        plan(node, "gpu-7", strict=False)


async def test_facts_that_cannot_be_stored_are_the_drivers_fault(node: Node) -> None:
    for value in ("\ud800", None, [1]):
        node.add("odd", attributes={"size": value})
        with pytest.raises(HardwareError, match="no plain facts"):
            wanted = read_claim(claim_of(1, "odd"), DRIVER, POOL)
            make_plan(wanted, node.options(), replace(node.surroundings(), attributes=lambda _: {}))


async def test_the_first_device_of_a_request_carries_its_names(node: Node) -> None:
    made = plan(node, "gpu-0", "gpu-1", {"request": "b", "device": "gpu-2"})
    edits = (ContainerEdits(env=(("A", "1"),)), ContainerEdits())
    requests = tuple(
        msgspec.structs.replace(request, edits=given)
        for request, given in zip(made.entry.requests, edits, strict=True)
    )
    entry = msgspec.structs.replace(made.entry, requests=requests)
    off = MetadataFiles(DRIVER, POOL, node.cdi_dir)
    assert make_answer(entry, node.options(), off) == (
        PreparedDevice(("r",), POOL, "gpu-0", (f"k8s.{DRIVER}/claim={uid_of(1)}-r",)),
        PreparedDevice(("r",), POOL, "gpu-1"),
        PreparedDevice(("b",), POOL, "gpu-2"),
    )
