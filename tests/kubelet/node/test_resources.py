from __future__ import annotations

from typing import Any

from dray.api.codec import view
from dray.api.core import Pod
from dray.api.quantity import Quantity
from dray.kubelet.node.resources import DeviceCapacity, Used, node_resources, why_not

MACHINE = {"cpu": Quantity("2"), "memory": Quantity("1Gi"), "pods": Quantity("3")}
GPU = "example.com/gpu"


def pod(*containers: dict[str, Any], **spec: Any) -> Pod:
    """Each container by its requests."""

    def made(number: int, requests: dict[str, Any]) -> dict[str, Any]:
        wanted = {key: str(value) for key, value in requests.items()}
        return {"name": f"c{number}", "resources": {"requests": wanted}}

    document = {
        "metadata": {"name": "p"},
        "spec": {
            "containers": [made(*one) for one in enumerate(containers)],
            **spec,
        },
    }
    return view(document, Pod)


def shown(amounts: dict[str, int]) -> dict[str, float]:
    return {name: amount / 10**9 for name, amount in amounts.items()}


def test_capacity_counts_the_unhealthy_and_allocatable_does_not() -> None:
    devices = DeviceCapacity({GPU: 3}, {GPU: 2}, ("example.com/gone",))
    before = {"example.com/gone": Quantity("2"), "example.com/other": Quantity("5"), "cpu": Quantity("9")}
    found = node_resources(MACHINE, devices, before)
    assert {name: str(value) for name, value in found.capacity.items()} == {
        "cpu": "2",
        "memory": "1Gi",
        "pods": "3",
        GPU: "3",
        "example.com/gone": "0",
        "example.com/other": "5",
    }
    assert str(found.allocatable[GPU]) == "2"
    assert str(found.allocatable["example.com/gone"]) == "0"


def test_the_first_that_is_short_is_told_as_a_kubelet_does() -> None:
    offered = {**MACHINE, GPU: Quantity("2")}
    assert why_not(pod({GPU: 2, "cpu": 2}), offered, {}) is None
    found = why_not(pod({GPU: 2}), offered, Used().by([pod({GPU: 1})]))
    assert found is not None
    assert found.reason == f"OutOf{GPU}"
    assert found.message == (f"Node didn't have enough resource: {GPU}, requested: 2, used: 1, capacity: 2")
    found = why_not(pod({"cpu": "1500m"}), offered, Used().by([pod({"cpu": 1})]))
    assert found is not None
    assert (
        found.message == "Node didn't have enough resource: cpu, requested: 1500, used: 1000, capacity: 2000"
    )
    full = why_not(pod({}), offered, Used().by([pod({}), pod({}), pod({})]))
    assert full is not None
    assert (full.reason, full.message) == (
        "OutOfpods",
        "Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3",
    )


def test_what_the_pod_requests_as_a_whole_is_what_it_takes() -> None:
    whole = {"requests": {"cpu": "2"}}
    assert why_not(pod({"cpu": 3}), MACHINE, {}) is not None
    assert why_not(pod({"cpu": 3}, resources=whole), MACHINE, {}) is None
    assert why_not(pod({}, resources=whole), MACHINE, Used().by([pod({}, resources=whole)])) is not None


def test_what_devices_are_held_counts_as_offered_while_their_plugin_is_away() -> None:
    offered = {**MACHINE, GPU: Quantity("0")}
    assert why_not(pod({GPU: 2}), offered, {}) is not None
    assert why_not(pod({GPU: 2}), offered, {}, held={GPU: 2}) is None


def test_resources_that_the_node_never_had_or_that_claims_back_are_not_checked() -> None:
    assert why_not(pod({GPU: 2}), MACHINE, {}) is None
    assert why_not(pod({GPU: 2}), {**MACHINE, GPU: Quantity("1")}, {}, ignored={GPU}) is None
    assert why_not(pod({GPU: 0}), {**MACHINE, GPU: Quantity("0")}, {}) is None


def test_pods_that_come_and_go_are_counted_once() -> None:
    used = Used()
    first, second, third = pod({GPU: 1}), pod({GPU: 2, "cpu": 1}), pod({GPU: 4})
    for now in ([first], [first, second], [second, third], [third, first, second], []):
        expected = Used().by(now)
        assert {name: amount for name, amount in used.by(now).items() if amount} == expected
    assert shown(dict(Used().by([first, second]))) == {GPU: 3, "cpu": 1, "pods": 2}
