"""The device taint eviction over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dray.api.kinds import DEVICE_TAINT_RULES, EVENTS, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.api.meta import format_time
from dray.client.client import Client
from dray.controllers.taints.controller import TaintControllerConfig, taint_controller
from dray.controllers.taints.eviction import EvictionPolicy
from dray.errors import UnavailableError
from dray.testing.check.api_server import Place
from tests.controllers.objects import (
    Json,
    pod_document,
    rule_document,
    slice_document,
    taint,
    template_document,
    user,
)
from tests.controllers.server import Cluster, ask_a_few, cluster
from tests.waiting import wait_until

Both = tuple[Cluster, Client]


@pytest.fixture
async def both(tmp_path: Path) -> AsyncIterator[Both]:
    async with cluster(tmp_path) as found:
        yield found


async def placed(api: Cluster, name: str = "p", claim: str = "c") -> Json:
    """A pod that runs with the device of a claim."""
    if not api.find(RESOURCE_CLAIMS, claim):
        await api.add(
            RESOURCE_CLAIMS, {"metadata": {"name": claim}, "spec": template_document()["spec"]["spec"]}
        )
    pod = await api.add_pod(pod_document(name, static={"a": claim}, node="n", phase="Running"))
    users = api.find(RESOURCE_CLAIMS, claim).get("status", {}).get("reservedFor", [])
    await api.allocate(claim, [*users, user(name, pod["metadata"]["uid"])])
    return pod


def last_of(api: Cluster, name: str) -> Json:
    """The pod as it was last, also after its end."""
    return [
        one.document
        for one in api.history
        if one.plural == "pods" and one.document["metadata"]["name"] == name
    ][-1]


async def test_a_tainted_slice_evicts(both: Both) -> None:
    api, client = both
    await api.add(RESOURCE_SLICES, slice_document())
    await placed(api)
    async with taint_controller(client):
        await ask_a_few(client)
        assert api.find(PODS, "p")
        now = slice_document("s", taint(at=format_time(api.clock.now())))["spec"]
        await api.change(RESOURCE_SLICES, "s", spec=now)
        await wait_until(lambda: not api.find(PODS, "p"))
        await wait_until(lambda: api.every(EVENTS))
    (condition,) = [
        one for one in last_of(api, "p")["status"]["conditions"] if one["type"] == "DisruptionTarget"
    ]
    assert condition["reason"] == "DeletionByDeviceTaintManager"
    assert [one["message"] for one in api.every(EVENTS)] == ["Marking for deletion"]


async def test_a_rule_evicts_all_users_and_says_so(both: Both) -> None:
    api, client = both
    await placed(api)
    await placed(api, "q")
    document = rule_document(selector={"driver": "d.example"}, at=format_time(api.clock.now()))
    async with taint_controller(client):
        await api.add(DEVICE_TAINT_RULES, document)
        await wait_until(lambda: not api.every(PODS))
        await wait_until(lambda: api.find(DEVICE_TAINT_RULES, "rule").get("status"))
        (condition,) = api.find(DEVICE_TAINT_RULES, "rule")["status"]["conditions"]
        assert condition["type"] == "EvictionInProgress"
    assert api.refused == []


async def test_rules_do_not_count_without_their_gate(both: Both) -> None:
    api, client = both
    await placed(api)
    at = format_time(api.clock.now())
    async with taint_controller(client, TaintControllerConfig(EvictionPolicy(taint_rules=False))):
        await api.add(DEVICE_TAINT_RULES, rule_document(selector={"driver": "d.example"}, at=at))
        await ask_a_few(client)
        assert api.find(PODS, "p")
        await api.add(RESOURCE_SLICES, slice_document("s", taint(at=at)))
        await wait_until(lambda: not api.find(PODS, "p"))
    assert not api.find(DEVICE_TAINT_RULES, "rule").get("status")


async def test_effect_none_tells_what_would_happen_and_evicts_nobody(both: Both) -> None:
    api, client = both
    await placed(api)
    async with taint_controller(client):
        await api.add(DEVICE_TAINT_RULES, rule_document(selector={}, effect="None"))
        await wait_until(lambda: api.find(DEVICE_TAINT_RULES, "rule").get("status"))
        (condition,) = api.find(DEVICE_TAINT_RULES, "rule")["status"]["conditions"]
        assert "1 pod would be evicted in 1 namespace" in condition["message"]
        assert api.find(PODS, "p")


async def test_an_eviction_that_is_called_off_is_told(both: Both) -> None:
    api, client = both
    future = taint(at="2130-01-01T00:00:00Z")
    await api.add(RESOURCE_SLICES, slice_document("s", future))
    await placed(api)
    async with taint_controller(client) as controller:
        await wait_until(lambda: controller.pending == 1)
        await api.remove(RESOURCE_SLICES, "s")
        await wait_until(lambda: api.every(EVENTS))
        assert [one["message"] for one in api.every(EVENTS)] == ["Cancelling deletion"]
        assert controller.pending == 0
        assert api.find(PODS, "p")


async def test_two_at_once_and_lost_answers_end_each_pod_once_and_no_successor(both: Both) -> None:
    api, client = both
    left = [3]

    def fail(method: str, place: Place, is_done: bool) -> None:
        if place.resource is PODS and left[0]:
            left[0] -= 1
            raise UnavailableError("lost")

    for name in "pqr":
        await placed(api, name)
    async with taint_controller(client), taint_controller(client):
        api.fails = fail
        await api.add(RESOURCE_SLICES, slice_document("s", taint(at="2020-01-01T00:00:00Z")))
        await wait_until(lambda: not api.every(PODS))
        successor = await api.add_pod(pod_document("p", static={"a": "c"}, node="n", phase="Running"))
        await placed(api, "last")
        await wait_until(lambda: not api.find(PODS, "last"))
        assert api.find(PODS, "p")["metadata"]["uid"] == successor["metadata"]["uid"]
    assert left == [0]
