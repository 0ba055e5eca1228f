"""Kubernetes' TestController and TestEviction, by name: what a sequence of changes leads to, over HTTP, in any order of arrival."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from dray.api.kinds import DEVICE_TAINT_RULES, EVENTS, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.api.meta import format_time
from dray.controllers.taints.controller import TaintController, TaintControllerConfig, taint_controller
from dray.controllers.taints.eviction import EvictionPolicy
from dray.runtime.clock import settle
from tests.campaign import campaign
from tests.controllers.claims.groups import GROUP_UID
from tests.controllers.claims.groups import user as group_user
from tests.controllers.objects import (
    CLAIM_UID,
    NS,
    OTHER_UID,
    POD_UID,
    Json,
    pod_document,
    rule_document,
    slice_document,
    taint,
    template_document,
    used,
    user,
)
from tests.controllers.server import Cluster, cluster
from tests.waiting import wait_until

FUTURE, PAST = "2130-01-01T00:00:00Z", "2020-01-01T00:00:00Z"
CANCELLED, EVICTED = "Cancelling deletion", "Marking for deletion"
POD = pod_document(static={"a": "c"}, node="n", phase="Running")
TEMPLATED = pod_document(claims={"a": "t"}, recorded={"a": "c"}, node="n", phase="Running")
TOLERANT = {"key": "bad", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3600}
GROUPS = TaintControllerConfig(EvictionPolicy(workload_claims=True))


def claim(*devices: Json, users: list[Json] | None = None, owner: str = "", uid: str = CLAIM_UID) -> Json:
    metadata: Json = {"name": "c", "namespace": NS, "uid": uid}
    if owner:
        reference = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner, "controller": True}
        metadata["ownerReferences"] = [reference]
    status = {
        "allocation": {"devices": {"results": list(devices) or [used()]}},
        "reservedFor": [user()] if users is None else users,
    }
    return {"metadata": metadata, "spec": template_document()["spec"]["spec"], "status": status}


class Scene:
    """The server, the controller once it runs, and the few things that happen in these scenarios."""

    def __init__(self, api: Cluster, controller: TaintController) -> None:
        self.api, self.controller = api, controller

    async def slice(self, at: str = "", **changes: str) -> None:
        """It comes or changes; tainted from that time on, or not at all."""
        taints = [taint(at=at, **changes)] if at else []
        await self.api.put(RESOURCE_SLICES, slice_document("s", *taints))

    async def wait_pending(self, count: int = 1) -> None:
        await wait_until(lambda: self.controller.pending == count)

    async def wait_evicted(self) -> None:
        await wait_until(lambda: not self.api.find(PODS, "p"))
        await wait_until(lambda: EVICTED in self.told)

    async def stays(self) -> None:
        await self.looked_at()
        assert self.api.find(PODS, "p")
        assert self.controller.pending == 0

    async def looked_at(self) -> None:
        """Another pod loses its device, comes last in each watch, and goes: all that was before has been looked at."""
        tainted = slice_document("other", taint(at=PAST), device="other")
        tainted["spec"]["pool"]["name"] = "other"
        one = claim(used(device="other") | {"pool": "other"}, users=[user("other", OTHER_UID)], uid="other")
        one["metadata"]["name"] = "other"
        await self.api.put(RESOURCE_SLICES, tainted)
        await self.api.put(RESOURCE_CLAIMS, one)
        pod = pod_document("other", OTHER_UID, static={"a": "other"}, node="n", phase="Running")
        await self.api.put(PODS, pod)
        await wait_until(lambda: not self.api.find(PODS, "other"))
        await settle()

    @property
    def told(self) -> list[str]:
        """About the pod."""
        return [one["message"] for one in self.api.every(EVENTS) if one["involvedObject"]["name"] == "p"]


@asynccontextmanager
async def scene(
    directory: Path, *things: Json, config: TaintControllerConfig | None = None
) -> AsyncIterator[Scene]:
    """With these pods and claims there before the controller starts."""
    async with cluster(directory) as (api, client):
        for one in things:
            await api.put(PODS if "containers" in one["spec"] else RESOURCE_CLAIMS, one)
        async with taint_controller(client, config) as controller:
            yield Scene(api, controller)


ORDERS = list(itertools.permutations(["slice", "claim", "pod"]))[:: campaign(2, 1)]


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
@pytest.mark.parametrize("by", ["resourceclaim", "resourceclaim-podgroup", "rule"])
async def test_evict_pod(tmp_path: Path, by: str, order: tuple[str, ...]) -> None:
    """evict-pod-resourceclaim, evict-pod-resourceclaim-podgroup, evict-pod-rule; TestEviction: add."""
    is_group = by == "resourceclaim-podgroup"
    async with scene(tmp_path, config=GROUPS if is_group else None) as found:
        pod = POD | {"spec": POD["spec"] | {"schedulingGroup": {"podGroupName": "g"}}} if is_group else POD
        one = claim(users=[group_user()]) if is_group else claim()
        for step in order:
            await asyncio.sleep(0.01)
            match step:
                case "claim":
                    await found.api.put(RESOURCE_CLAIMS, one)
                case "pod":
                    await found.api.put(PODS, pod)
                case _ if by == "rule":
                    await found.api.put(DEVICE_TAINT_RULES, rule_document(selector={}, at=PAST))
                case _:
                    await found.slice(PAST)
        await found.wait_evicted()
        assert found.told == [EVICTED]


async def test_a_group_counts_only_with_its_gate(tmp_path: Path) -> None:
    pod = POD | {"spec": POD["spec"] | {"schedulingGroup": {"podGroupName": "g"}}}
    async with scene(tmp_path, pod, claim(users=[group_user(uid=GROUP_UID)])) as found:
        await found.slice(PAST)
        await found.stays()


async def test_initial(tmp_path: Path) -> None:
    """TestEviction: all was there before the controller."""
    async with cluster(tmp_path) as (api, client):
        await api.put(PODS, POD)
        await api.put(RESOURCE_CLAIMS, claim())
        await api.put(RESOURCE_SLICES, slice_document("s", taint(at=PAST)))
        async with taint_controller(client) as controller:
            await Scene(api, controller).wait_evicted()


async def test_update(tmp_path: Path) -> None:
    """TestEviction; evict-pod-after-scheduling: the node comes last."""
    free = claim() | {"status": {}}
    unplaced = pod_document(static={"a": "c"})
    async with scene(tmp_path, unplaced, free) as found:
        await found.slice()
        await found.stays()
        await found.slice(PAST)
        await found.api.put(RESOURCE_CLAIMS, claim())
        await found.stays()
        await found.api.put(PODS, POD)
        await found.wait_evicted()


async def test_delete(tmp_path: Path) -> None:
    """TestEviction: a slice of a newer generation hid the taint."""
    async with scene(tmp_path, POD, claim()) as found:
        await found.api.put(RESOURCE_SLICES, slice_document("newer", generation=101))
        await found.slice(PAST)
        await found.stays()
        await found.api.remove(RESOURCE_SLICES, "newer")
        await found.wait_evicted()


async def test_evict_pod_resourceclaim_again(tmp_path: Path) -> None:
    async with scene(tmp_path, POD, claim()) as found:
        await found.slice(FUTURE)
        await found.wait_pending()
        await found.api.remove(RESOURCE_SLICES, "s")
        await wait_until(lambda: found.told == [CANCELLED])
        await found.slice(PAST)
        await found.wait_evicted()
        assert sorted(found.told) == [CANCELLED, EVICTED]


async def test_evict_pod_resourceclaim_unrelated_changes(tmp_path: Path) -> None:
    async with scene(tmp_path, POD, claim()) as found:
        soon = format_time(found.api.clock.now() + timedelta(seconds=2))
        await found.slice(soon)
        await found.wait_pending()
        wider = slice_document("s", taint(at=soon))
        wider["spec"]["devices"].append({"name": "g7"})
        await found.api.put(RESOURCE_SLICES, wider)
        await found.api.put(RESOURCE_CLAIMS, claim())
        await found.api.put(PODS, POD)
        await found.looked_at()
        assert found.controller.pending == 1 or not found.api.find(PODS, "p")
        await found.wait_evicted()
        assert found.told == [EVICTED]


async def test_no_evict_no_taint_update(tmp_path: Path) -> None:
    async with scene(tmp_path, POD, claim()) as found:
        await found.slice()
        await found.slice()
        await found.stays()
        assert found.told == []


async def test_evict_wrong_pod_replaced(tmp_path: Path) -> None:
    wrong = pod_document(uid=OTHER_UID, static={"a": "c"}, node="n", phase="Running")
    async with scene(tmp_path, wrong, claim()) as found:
        await found.slice(PAST)
        await found.stays()
        await found.api.remove(PODS, "p")
        await found.api.put(PODS, POD)
        await found.wait_evicted()


async def test_evict_wrong_resourceclaim_replaced(tmp_path: Path) -> None:
    async with scene(tmp_path, TEMPLATED, claim(owner=OTHER_UID)) as found:
        await found.slice(PAST)
        await found.stays()
        await found.api.put(RESOURCE_CLAIMS, claim(owner=POD_UID))
        await found.wait_evicted()


async def test_eviction_change_taint(tmp_path: Path) -> None:
    """From a taint that is tolerated for an hour to one that is not."""
    async with scene(tmp_path, POD, claim(used(TOLERANT))) as found:
        await found.slice(format_time(found.api.clock.now()))
        await found.wait_pending()
        await found.slice(PAST, key="other")
        await found.wait_evicted()
        assert found.told == [EVICTED]


async def _untaint(found: Scene) -> None:
    await found.slice()


async def _reduce(found: Scene) -> None:
    await found.slice(FUTURE, effect="NoSchedule")


async def _move(found: Scene) -> None:
    await found.api.remove(RESOURCE_SLICES, "s")
    await found.api.put(RESOURCE_SLICES, slice_document("other"))


async def _remove(found: Scene) -> None:
    await found.api.remove(RESOURCE_SLICES, "s")


async def _deallocate(found: Scene) -> None:
    await found.api.put(RESOURCE_CLAIMS, claim() | {"status": {}})


async def _drop_claim(found: Scene) -> None:
    await found.api.remove(RESOURCE_CLAIMS, "c")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(_untaint, id="cancel-eviction-remove-taint"),
        pytest.param(_reduce, id="cancel-eviction-reduce-taint"),
        pytest.param(_move, id="cancel-eviction-remove-taint-in-new-slice"),
        pytest.param(_remove, id="cancel-eviction-remove-slice"),
        pytest.param(_deallocate, id="no-evict-resourceclaim-deallocated"),
        pytest.param(_drop_claim, id="no-evict-resourceclaim-deleted"),
    ],
)
async def test_an_eviction_is_called_off(tmp_path: Path, change: Callable[[Scene], Awaitable[None]]) -> None:
    async with scene(tmp_path, POD, claim()) as found:
        await found.slice(FUTURE)
        await found.wait_pending()
        await change(found)
        await wait_until(lambda: found.told == [CANCELLED])
        await found.stays()


async def test_cancel_eviction_pod_deletion(tmp_path: Path) -> None:
    async with scene(tmp_path, POD, claim()) as found:
        await found.slice(FUTURE)
        await found.wait_pending()
        await found.api.remove(PODS, "p")
        await found.wait_pending(0)
        assert found.told == []


@pytest.mark.parametrize("order", [("now", "later"), ("later", "now")], ids=["order-1", "order-2"])
async def test_multiple_claims_different_rules(tmp_path: Path, order: tuple[str, str]) -> None:
    """The earlier rule decides, whichever is seen first; and the pod goes once."""
    times, devices = {"now": PAST, "later": FUTURE}, {"now": "g0", "later": "g1"}
    second = claim(used(device="g1"))
    second["metadata"] |= {"name": "second", "uid": OTHER_UID}
    both = pod_document(static={"a": "c", "b": "second"}, node="n", phase="Running")
    async with scene(tmp_path, both, claim(), second) as found:
        for name in order:
            document = rule_document(name, selector={"device": devices[name]}, at=times[name])
            await found.api.put(DEVICE_TAINT_RULES, document)
            await asyncio.sleep(0.01)
        await found.wait_evicted()
        assert found.told == [EVICTED]
