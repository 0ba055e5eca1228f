"""Devices as claims see them."""

from __future__ import annotations

from typing import Any

import pytest

from dray.allocation.cluster.workloads import workloads_of
from dray.allocation.explanation.sight import Sight
from dray.allocation.profiles import CORRECT, KUBERNETES_1_36
from dray.api.codec import view
from dray.api.resource.slice import ResourceSlice
from tests.allocation.dumps import claims, situation, slices
from tests.allocation.world import Json, claim, device, piece, request, uses

MODEL = 'device.attributes["driver-a"].model == "A"'


def kinds(*made: Json, selector: str = MODEL) -> list[int]:
    """A number for each device; those with the same number look the same."""
    given = slices(piece(*made)), claims(claim(request(1, selector)))
    one, other = situation(*given, profile=KUBERNETES_1_36), situation(*given, profile=CORRECT)
    sight = Sight(workloads_of(one.cluster)[0].pending, (one, other))
    return list(sight.of(one.cluster.slices[0]))


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
    assert sight.of(one.cluster.slices[0]) == (0, 0)
    assert sight.of(view(piece(bad), ResourceSlice)) == (1,)


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
    assert [sight.of(part) for part in one.cluster.slices] == [(0, 1), ()]


def test_slices_that_are_alike_have_the_same_numbers() -> None:
    one = situation(
        slices(
            piece(gpu("a"), gpu("b", "B"), name="one", pool="one"),
            piece(gpu("c"), gpu("d", "B"), name="two", pool="two"),
        ),
        claims(claim(request(1, MODEL))),
    )
    sight = Sight(workloads_of(one.cluster)[0].pending, (one,))
    assert [sight.of(part) for part in one.cluster.slices] == [(0, 1), (0, 1)]
