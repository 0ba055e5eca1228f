"""Who holds a device, whether a claim could still get it, and what it is."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.codec import view
from dray.api.resource import ResourceClaim
from dray.api.resource.slice import Device
from dray.semantics.devices import (
    DeviceStatus,
    Holder,
    Totals,
    attribute,
    device_status,
    holders_by_taint,
    holders_in,
    is_simulated,
    product_name,
    totals,
)

Json = dict[str, Any]
DRIVER = "gpu.example.com"
HELD = {"key": f"{DRIVER}/held-by-plugin", "value": "web-0", "effect": "NoSchedule"}
AS_ANOTHER = {"key": f"{DRIVER}/held-by-claim", "value": "train", "effect": "NoSchedule"}
FAN = {"key": "fan", "effect": "NoSchedule"}
ILL = {"key": f"{DRIVER}/unhealthy", "effect": "NoSchedule"}
NOTE = {"key": f"{DRIVER}/unhealthy", "effect": "None"}


def device(**fields: Any) -> Device:
    return view({"name": "gpu-0", **fields}, Device)


def claim(*results: Json, name: str = "c", pods: tuple[str, ...] = ()) -> ResourceClaim:
    place = {"request": "r", "driver": DRIVER, "pool": "n", "device": "gpu-0"}
    users = [{"resource": "pods", "name": one} for one in pods]
    users.append({"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g"})
    status = {"allocation": {"devices": {"results": [place | one for one in results]}}, "reservedFor": users}
    return view({"metadata": {"name": name, "namespace": "ns"}, "status": status}, ResourceClaim)


def status(found: Device, *results: Json, is_blocked: bool = False) -> DeviceStatus:
    holders = [holder for _, holder in holders_in(claim(*results))]
    holders += holders_by_taint(found.taints)
    return device_status(found, found.taints, holders, is_blocked=is_blocked)


def share(number: int, **takes: str) -> Json:
    return {"shareID": f"00000000-0000-0000-0000-00000000000{number}", "consumedCapacity": takes}


def shared(**capacity: Json) -> Device:
    return device(allowMultipleAllocations=True, capacity=capacity)


def shares(value: str, policy: Json | None = None) -> Json:
    return {"value": value} if policy is None else {"value": value, "requestPolicy": policy}


STEPS = {"default": "1", "validRange": {"min": "1", "max": "2", "step": "1"}}


@pytest.mark.parametrize(
    ("found", "results", "state", "is_held"),
    [
        (device(), [], "free", False),
        (device(), [{}], "held", True),
        (device(), [{"adminAccess": True}], "free", False),
        (device(taints=[NOTE]), [], "free", False),
        (device(taints=[FAN]), [], "tainted", False),
        (device(taints=[FAN]), [{}], "tainted", True),
        (device(taints=[ILL, FAN]), [{}], "unhealthy", True),
        (device(taints=[HELD]), [], "held", True),
        (device(taints=[AS_ANOTHER]), [], "held", True),
        # Shared: free while the least that a claim may take is left of every capacity.
        (shared(), [share(1), share(2)], "free", True),
        (shared(n=shares("2", STEPS)), [share(1, n="1")], "free", True),
        (shared(n=shares("2", STEPS)), [share(1, n="1"), share(2, n="1")], "held", True),
        (shared(n=shares("2500m", STEPS)), [share(1, n="2")], "held", True),
        (shared(n=shares("3", {"default": "2", "validValues": ["1", "2"]})), [share(1, n="2")], "free", True),
        (shared(n=shares("3", {"default": "2", "validValues": ["2"]})), [share(1, n="2")], "held", True),
        (shared(n=shares("10", {"default": "8"})), [share(1, n="8")], "free", True),
        (shared(n=shares("10", {"default": "8"})), [share(1, n="10")], "held", True),
        (shared(n=shares("10", {"default": "0"})), [share(1, n="10")], "free", True),
        (shared(n=shares("10")), [share(1, n="4")], "free", True),
        (shared(n=shares("10")), [share(1, n="10")], "held", True),
        (shared(n=shares("2", STEPS), m=shares("1")), [share(1, n="1", m="1")], "held", True),
        (shared(n=shares("2", STEPS)), [{"consumedCapacity": {"n": "1"}}], "held", True),
        (shared(n=shares("2", STEPS)), [{"adminAccess": True}], "free", False),
        (device(allowMultipleAllocations=True, taints=[HELD]), [], "held", True),
        (device(allowMultipleAllocations=True, taints=[FAN]), [share(1)], "tainted", True),
    ],
)
def test_state(found: Device, results: list[Json], state: str, is_held: bool) -> None:
    got = status(found, *results)
    assert (got.state, got.is_held, got.is_free) == (state, is_held, state == "free")


def test_without_its_counters_a_device_is_blocked_unless_somebody_has_it() -> None:
    assert status(device(), is_blocked=True).state == "blocked"
    assert status(device(), {}, is_blocked=True).state == "held"
    assert status(device(), {"adminAccess": True}, is_blocked=True).state == "blocked"
    ill = status(device(taints=[ILL]), is_blocked=True)
    assert (ill.state, ill.is_blocked, ill.is_free) == ("unhealthy", True, False)


def test_totals_count_what_is_several_things_as_each_of_them() -> None:
    found = [
        status(device()),
        status(device(), {}),
        status(device(taints=[ILL]), {}),
        status(device(taints=[FAN])),
        status(device(), is_blocked=True),
        status(shared(n=shares("2", STEPS)), share(1, n="1")),
    ]
    assert totals(found) == Totals(devices=6, free=2, held=3, blocked=1, tainted=1, unhealthy=1)
    assert totals(()) == Totals()


def test_who_has_which_share() -> None:
    found = list(holders_in(claim(share(1, n="1"), share(2, n="3") | {"device": "b"}, pods=("p", "q"))))
    assert [key for key, _ in found] == [(DRIVER, "n", "gpu-0"), (DRIVER, "n", "b")]
    assert [(one.claim, one.pods, one.share[-1], one.admin, one.door) for _, one in found] == [
        ("ns/c", ("ns/p", "ns/q"), "1", False, "dra"),
        ("ns/c", ("ns/p", "ns/q"), "2", False, "dra"),
    ]
    assert [str(one.takes["n"]) for _, one in found] == ["1", "3"]
    ((_, admin),) = holders_in(claim({"adminAccess": True}))
    assert admin.admin
    assert not list(holders_in(view({"metadata": {"name": "c", "namespace": "ns"}}, ResourceClaim)))


def test_who_has_a_device_that_no_claim_of_its_own_has() -> None:
    taints = device(taints=[HELD, AS_ANOTHER, FAN, {"key": "held-by-plugin", "effect": "NoSchedule"}]).taints
    assert list(holders_by_taint(taints)) == [
        Holder("", ("web-0",), door="plugin"),
        Holder("train", door="other"),
        Holder("", (), door="plugin"),
    ]


@pytest.mark.parametrize(
    ("attributes", "value"),
    [
        ({}, None),
        ({"numaNode": {"int": 1}, f"{DRIVER}/numaNode": {"int": 2}}, 1),
        ({f"{DRIVER}/numaNode": {"int": 2}, "resource.kubernetes.io/numaNode": {"int": 3}}, 2),
        ({"resource.kubernetes.io/numaNode": {"int": 3}, "a.example.com/numaNode": {"int": 4}}, 3),
        ({"b.example.com/numaNode": {"int": 5}, "a.example.com/numaNode": {"int": 4}}, 4),
        ({"numaNode": {"ints": [0, 1]}}, (0, 1)),
        ({"numaNode": {"bool": False}}, False),
        ({"numaNode": {"version": "1.2.3"}}, "1.2.3"),
        ({"numaNode": {}}, None),
    ],
)
def test_an_attribute_is_the_drivers_own_before_that_of_others(attributes: Json, value: object) -> None:
    assert attribute(device(attributes=attributes), DRIVER, "numaNode") == value


@pytest.mark.parametrize(
    ("attributes", "product"),
    [
        ({}, ""),
        ({"type": {"string": "gpu"}, f"{DRIVER}/productName": {"string": "H200"}}, "H200"),
        ({"productName": {"string": ""}, "model": {"string": "A100"}}, "A100"),
        ({"device": {"string": "2331"}, "resource": {"string": "example.com/gpu"}}, "example.com/gpu"),
        ({"device": {"string": "2331"}}, "2331"),
        ({"model": {"int": 3}, "shape": {"string": "nic"}}, "nic"),
    ],
)
def test_product(attributes: Json, product: str) -> None:
    assert product_name(device(attributes=attributes), DRIVER) == product


def test_simulated_devices_say_so_or_have_such_a_driver() -> None:
    assert is_simulated(device(), "sim.dray.internal")
    assert is_simulated(device(attributes={"simulated": {"bool": True}}), DRIVER)
    assert not is_simulated(device(attributes={"simulated": {"string": "true"}}), DRIVER)
