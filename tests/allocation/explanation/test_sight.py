"""Devices as claims see them."""

from __future__ import annotations

from typing import Any

import pytest

from dray.allocation.cluster.workloads import workloads_of
from dray.allocation.explanation.sight import Sight
from dray.allocation.profiles import CORRECT, KUBERNETES_1_36
from dray.api.codec import view
from dray.api.resource.slice import Device
from tests.allocation.dumps import claims, situation, slices
from tests.allocation.world import Json, claim, device, piece, request, uses

MODEL = 'device.attributes["driver-a"].model == "A"'


def kinds(*made: Json, selector: str = MODEL) -> list[int]:
    """A number for each device; those with the same number look the same."""
    given = slices(piece(*made)), claims(claim(request(1, selector)))
    one, other = situation(*given, profile=KUBERNETES_1_36), situation(*given, profile=CORRECT)
    sight = Sight(workloads_of(one.cluster)[0].pending, (one, other))
    devices = one.cluster.slices[0].spec.devices or ()
    return [sight.of("driver-a", each) for each in devices]


def gpu(name: str, model: str = "A", **fields: Any) -> Json:
    attributes = {"model": {"string": model}, "serial": {"string": name}}
    return device(name, attributes=attributes | fields.pop("attributes", {}), **fields)


def test_only_what_is_read_counts() -> None:
    assert kinds(gpu("a"), gpu("b"), gpu("c", "B")) == [0, 0, 1]
    reads_all = 'device.attributes["driver-a"].exists(name, name == "x")'
    assert kinds(gpu("a"), gpu("b"), selector=reads_all) == [0, 1]


@pytest.mark.parametrize(
    "fields",
    [
        {"capacity": {"memory": {"value": "2Gi"}}},
        {"capacity": {"memory": {"value": "1073741824"}}},
        {"capacity": {"memory": {"value": "1Gi"}}, "allowMultipleAllocations": True},
        {"attributes": {"driver-a/model": {"string": "A"}}},
        {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]},
    ],
)
def test_what_counts_for_every_claim(fields: Json) -> None:
    assert kinds(gpu("a", capacity={"memory": {"value": "1Gi"}}), gpu("b", **fields)) == [0, 1]


def test_an_attribute_that_nobody_reads_but_that_has_no_value_fails_every_selector() -> None:
    def with_version(name: str, text: str) -> Json:
        return gpu(name, attributes={"version": {"version": text}})

    good, other, bad = with_version("a", "1.0.0"), with_version("b", "2.0.0"), with_version("c", "1.0.0")
    bad["attributes"]["version"] = {"version": "one"}
    one = situation(slices(piece(good, other)), claims(claim(request(1, MODEL))))
    sight = Sight(workloads_of(one.cluster)[0].pending, (one,))
    devices = one.cluster.slices[0].spec.devices or ()
    assert sight.of("driver-a", devices[0]) == sight.of("driver-a", devices[1])
    assert sight.of("driver-a", view(bad, Device)) != sight.of("driver-a", devices[0])


def test_partitions_are_each_their_own() -> None:
    sets = [{"name": "set-1", "counters": {"mem": {"value": "8Gi"}}}]
    one = situation(
        slices(
            piece(gpu("a", consumesCounters=uses("1Gi")), gpu("b", consumesCounters=uses("1Gi")), of=2),
            piece(name="counters", of=2, sharedCounters=sets),
        ),
        claims(claim(request(1, MODEL))),
    )
    sight = Sight(workloads_of(one.cluster)[0].pending, (one,))
    devices = [each for part in one.cluster.slices for each in part.spec.devices or ()]
    assert len({sight.of("driver-a", each) for each in devices}) == 2
