"""The workloads of the scheduler's benchmark are valid and fit; its load is written with bounded concurrency."""

from __future__ import annotations

import asyncio

import pytest

from dray.api.codec import view
from dray.api.kinds import by_kind
from dray.api.quantity import ZERO
from dray.api.resource.slice import ResourceSlice
from dray.api.validation.entry import validate
from dray.bench.scheduler_cluster import Bound, at_once
from dray.bench.scheduler_workloads import Json, Workload, partitions, whole_devices

WORKLOADS = (whole_devices(3, 10, 30), partitions(2, 6))


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda one: one.name)
def test_every_object_is_valid(workload: Workload) -> None:
    for document in (workload.device_class, *workload.slices, *workload.claims):
        resource = by_kind(document["apiVersion"], document["kind"])
        assert validate(resource, view(document, resource.type)) == []


def test_each_pod_names_its_claim_and_scheduler() -> None:
    workload = WORKLOADS[0]
    pods = list(workload.pods("mine", 2))
    assert [pod["spec"]["resourceClaims"][0]["resourceClaimName"] for pod in pods] == [
        claim["metadata"]["name"] for claim in workload.claims[:2]
    ]
    assert {pod["spec"]["schedulerName"] for pod in pods} == {"mine"}


def test_a_card_has_fifteen_partitions_over_eight_counters() -> None:
    counters, devices = (view(document, ResourceSlice).spec for document in WORKLOADS[1].slices[:2])
    assert [len(one.counters) for one in counters.shared_counters or ()] == [8]
    widths: list[int] = []
    for device in devices.devices or ():
        (drawn,) = device.consumes_counters
        assert all(counter.value > ZERO for counter in drawn.counters.values())
        widths.append(len(drawn.counters))
    assert sorted(widths) == [1] * 8 + [2] * 4 + [4] * 2 + [8]


def test_the_rate_counts_from_the_first_binding_to_the_last() -> None:
    assert Bound((10.0, 10.5, 11.0)).rate == 2.0


async def test_no_more_calls_than_writers_at_once() -> None:
    running, most, done = 0, 0, list[int]()

    async def call(number: int) -> Json:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        done.append(number)
        return {}

    await at_once((call(number) for number in range(20)), writers=3)
    assert (most, sorted(done)) == (3, list(range(20)))
