from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from dray.api.codec import view
from dray.api.core import Pod
from dray.api.meta import ObjectMeta
from dray.api.names import dns_subdomain
from dray.api.resource import ResourceClaim, ResourceSlice
from dray.api.resource.slice import Device, ResourcePool, ResourceSliceSpec
from dray.api.taints import DeviceTaint
from dray.cli.taint_plan import (
    Target,
    Victim,
    find_devices,
    make_rule,
    other_sources,
    parse_taint,
    rule_document,
    rule_name,
    targets_of,
    victims,
)
from dray.cli.views.fleet import FleetDevice
from dray.controllers.taints.eviction import CORRECT, KUBERNETES_1_36
from dray.errors import Error, InvalidError, NotFoundError

NOW = datetime(2030, 1, 1, tzinfo=UTC)
EVICT = DeviceTaint(key="fix", value="fan", effect="NoExecute")


def device(name: str, driver: str = "gpu.example.com", node: str = "n1", pool: str = "") -> FleetDevice:
    return FleetDevice(driver, pool or node, Device(name=name), node)


DEVICES = [
    device("gpu-0"),
    device("gpu-1"),
    device("gpu-0", "nic.example.com"),
    device("gpu-0", node="n2", pool="p2"),
]


def found(where: str, driver: str = "") -> list[str]:
    return [one.id for one in find_devices(where, driver, DEVICES, ["n1", "n2", "n3"])]


def test_taints_as_words() -> None:
    assert parse_taint("fix=fan:NoExecute") == EVICT
    assert parse_taint("example.com/fix:NoSchedule") == DeviceTaint(
        key="example.com/fix", effect="NoSchedule"
    )
    assert parse_taint("fix", whole=False) == DeviceTaint(key="fix")
    assert parse_taint("fix=a", whole=False) == DeviceTaint(key="fix", value="a")


@pytest.mark.parametrize(
    "text", ["", "fix", "fix=fan", "=fan:NoExecute", "fix=fan:noexecute", ":NoExecute", "a:PreferNoSchedule"]
)
def test_words_that_are_no_taint(text: str) -> None:
    with pytest.raises(InvalidError, match="KEY=VALUE:EFFECT"):
        parse_taint(text)


def test_which_devices_are_meant() -> None:
    assert found("n1/gpu-1") == ["gpu.example.com/n1/gpu-1"]
    assert found("n1/gpu-0", "nic.example.com") == ["nic.example.com/n1/gpu-0"]
    assert found("n1") == found("n1/*") and len(found("n1")) == 3
    assert found("n2") == found("p2") == ["gpu.example.com/p2/gpu-0"]


@pytest.mark.parametrize(
    ("where", "driver", "kind", "text"),
    [
        (
            "n1/gpu-0",
            "",
            InvalidError,
            "a device of gpu.example.com and of nic.example.com; say which with --driver",
        ),
        ("n1/gpu-7", "", NotFoundError, "did you mean n1/gpu-"),
        ("n1/x", "", NotFoundError, "`dray describe node n1` shows its devices"),
        ("n3", "", NotFoundError, "node n3 offers no devices through DRA"),
        ("n1", "tape.example.com", NotFoundError, "node n1 offers no devices of driver tape.example.com"),
        ("zebra", "", NotFoundError, "`dray get devices` shows all"),
    ],
)
def test_words_that_mean_no_device(where: str, driver: str, kind: type[Error], text: str) -> None:
    with pytest.raises(kind, match=text.replace("(", r"\(")):
        found(where, driver)


def test_a_node_is_a_rule_for_each_pool_so_that_later_devices_are_meant_too() -> None:
    assert targets_of("n1", "", DEVICES[:3]) == [Target("n1")]
    assert targets_of("n1/*", "d", DEVICES[:3]) == [Target("n1", driver="d")]
    assert targets_of("n2/gpu-0", "", DEVICES[3:]) == [Target("p2", "gpu-0", "gpu.example.com")]


def test_names_are_the_same_for_the_same_words_and_good_names() -> None:
    one = Target("Node_1." + "x" * 80, "gpu-0", "gpu.example.com")
    name = rule_name(one, "example.com/Fix", "NoExecute")
    assert name == rule_name(one, "example.com/Fix", "NoExecute") and not dns_subdomain(name)
    others = {
        rule_name(Target(one.pool, "gpu-0"), "example.com/Fix", "NoExecute"),
        rule_name(one, "example.com/fix", "NoExecute"),
        rule_name(one, "example.com/Fix", "NoSchedule"),
    }
    assert len(others) == 3 and name not in others


def test_what_is_sent() -> None:
    rule = make_rule(Target("n1", "gpu-0", "d"), EVICT, NOW)
    assert rule_document(rule, "resource.k8s.io/v1beta2") == {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "DeviceTaintRule",
        "metadata": {"name": rule.metadata.name},
        "spec": {
            "deviceSelector": {"driver": "d", "pool": "n1", "device": "gpu-0"},
            "taint": {"key": "fix", "value": "fan", "effect": "NoExecute"},
        },
    }


def claim(name: str, device: str, pod: str, *tolerations: dict[str, Any]) -> ResourceClaim:
    result = {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": device}
    return view(
        {
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {},
            "status": {
                "allocation": {"devices": {"results": [{**result, "tolerations": list(tolerations)}]}},
                "reservedFor": [{"resource": "pods", "name": pod, "uid": pod}],
            },
        },
        ResourceClaim,
    )


def pod(name: str, claim_name: str, phase: str = "Running") -> Pod:
    entry = {"name": "c", "resourceClaimName": claim_name}
    return view(
        {
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {"nodeName": "n1", "resourceClaims": [entry], "containers": [{"name": "m"}]},
            "status": {"phase": phase},
        },
        Pod,
    )


def test_who_would_have_to_go() -> None:
    tolerant: dict[str, Any] = {"key": "fix", "operator": "Exists", "effect": "NoExecute"}
    bare: dict[str, Any] = {"operator": "Exists"}
    claims = [
        claim("a", "gpu-0", "b-pod"),
        claim("b", "gpu-1", "a-pod"),
        claim("c", "gpu-0", "patient", tolerant | {"tolerationSeconds": 300}),
        claim("d", "gpu-0", "stays", tolerant),
        claim("e", "gpu-0", "bare", bare),
        claim("f", "gpu-0", "done"),
    ]
    pods = [
        pod("b-pod", "a"),
        pod("a-pod", "b"),
        pod("patient", "c"),
        pod("stays", "d"),
        pod("bare", "e"),
        pod("done", "f", "Succeeded"),
    ]
    one = [make_rule(Target("n1", "gpu-0", "gpu.example.com"), EVICT, NOW)]
    going = victims(one, pods, claims, NOW, CORRECT)
    assert going == [
        Victim("default/b-pod", ("default/a",)),
        Victim("default/patient", ("default/c",), 300),
    ]
    assert [each.pod for each in victims(one, pods, claims, NOW, KUBERNETES_1_36)] == [
        "default/b-pod",
        "default/bare",
        "default/patient",
    ]
    whole = [make_rule(Target("n1"), EVICT, NOW)]
    assert "default/a-pod" in [each.pod for each in victims(whole, pods, claims, NOW, CORRECT)]


def test_who_else_taints() -> None:
    target = Target("n1", "gpu-0", "gpu.example.com")
    rules = [
        make_rule(Target("n1"), EVICT, NOW),
        make_rule(Target("n2"), EVICT, NOW),
        make_rule(Target("n1", "gpu-1"), EVICT, NOW),
        make_rule(Target("n1"), DeviceTaint(key="other", effect="NoExecute"), NOW),
    ]
    spec = ResourceSliceSpec(
        driver="gpu.example.com",
        pool=ResourcePool(name="n1"),
        devices=(Device(name="gpu-0", taints=(EVICT,)), Device(name="gpu-1")),
    )
    slices = [ResourceSlice(metadata=ObjectMeta(name="s"), spec=spec)]
    assert other_sources("fix", [target], rules, slices) == [
        "driver gpu.example.com",
        f"rule {rules[0].metadata.name}",
    ]
    assert other_sources("fix", [Target("n1", "gpu-1", "x")], [], slices) == []
    newer = ResourceSliceSpec(driver="gpu.example.com", pool=ResourcePool(name="n1", generation=1))
    replaced = [*slices, ResourceSlice(metadata=ObjectMeta(name="t"), spec=newer)]
    assert other_sources("fix", [target], [], replaced) == [], "of outdated slices nothing is said"
