from __future__ import annotations

import asyncio
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from dray.api.core import Pod
from dray.api.kinds import PODS, RESOURCE_CLAIMS
from dray.api.resource import ResourceClaim
from dray.client.client import Client
from dray.client.informer import Informer
from dray.client.store import Change, Deleted
from dray.errors import NotFoundError
from dray.runtime.clock import SystemClock
from dray.up.fleet.pod_course import RUNS_FOR
from dray.up.fleet.pods import PATIENCE
from dray.up.fleet.profile_file import load_profile
from tests.up.fleet.fleet_cluster import NS, fleet, in_phase, server, sim_cluster, small
from tests.waiting import until, wait_until

Json = dict[str, Any]


def pod(name: str, *claims: str, runs_for: str = "", node: str = "", **spec: Any) -> Json:
    entries = [{"name": one, "resourceClaimName": one} for one in claims]
    uses = {"claims": [{"name": one} for one in claims]}
    body = {
        "containers": [{"name": "c", "image": "i", "resources": uses}],
        "resourceClaims": entries,
        "restartPolicy": "Never",
        **({"nodeName": node} if node else {}),
        **spec,
    }
    annotations = {RUNS_FOR: runs_for} if runs_for else {}
    return {"metadata": {"name": name, "namespace": NS, "annotations": annotations}, "spec": body}


def claim(name: str, count: int = 1, device_class: str = "gpu", selector: str = "") -> Json:
    wish: Json = {"deviceClassName": device_class, "count": count}
    if selector:
        wish["selectors"] = [{"cel": {"expression": selector}}]
    request = {"name": "r", "exactly": wish}
    return {"metadata": {"name": name, "namespace": NS}, "spec": {"devices": {"requests": [request]}}}


async def get_claim(client: Client, name: str) -> ResourceClaim:
    return await client.get(RESOURCE_CLAIMS, name, namespace=NS)


async def is_gone(client: Client, name: str) -> bool:
    try:
        await client.get(PODS, name, namespace=NS)
    except NotFoundError:
        return True
    return False


async def test_a_pod_with_a_claim_runs_ends_and_gives_it_back(tmp_path: Path) -> None:
    phases: dict[str, str] = {}
    prepared: set[tuple[str, str, str]] = set()

    def note_pod(change: Change[Pod]) -> None:
        if not isinstance(change, Deleted):
            phases[change.new.value.status.phase] = change.new.value.spec.node_name

    def note_claim(change: Change[ResourceClaim]) -> None:
        if not isinstance(change, Deleted):
            devices = change.new.value.status.devices
            prepared.update((one.pool, one.device, one.conditions[0].reason) for one in devices)

    async with (
        sim_cluster(tmp_path, small(2)) as client,
        Informer(client, PODS) as pods,
        Informer(client, RESOURCE_CLAIMS) as claims,
    ):
        pods.on_change(note_pod)
        claims.on_change(note_claim)
        await client.create(RESOURCE_CLAIMS, claim("a", 2))
        await client.create(PODS, pod("a", "a", runs_for="1s"))
        await in_phase(client, "a", "Succeeded")

        async def is_free() -> bool:
            return (await get_claim(client, "a")).status.allocation is None

        assert await until(is_free)
        await wait_until(lambda: "Succeeded" in phases and len(prepared) == 2)
        node = phases["Running"]
        assert prepared == {(node, "gpu-0", "Prepared"), (node, "gpu-1", "Prepared")}


class Hasty(SystemClock):
    """A second later each time it is asked, so that what is worked out twice is not the same."""

    asked = 0

    def now(self) -> datetime:
        self.asked += 1
        return super().now() + timedelta(seconds=self.asked)


async def test_that_a_pod_runs_is_written_once(tmp_path: Path) -> None:
    """The news of its claim has it looked at again before what was written of it has come back."""
    names = [f"p{number}" for number in range(12)]
    written = Counter[str]()

    def note(change: Change[Pod]) -> None:
        if not isinstance(change, Deleted) and change.new.value.status.phase == "Running":
            written[change.key[1]] += 1

    async with sim_cluster(tmp_path, small(8), Hasty()) as client, Informer(client, PODS) as pods:
        pods.on_change(note)
        await asyncio.gather(*(client.create(PODS, pod(name, name)) for name in names))
        await asyncio.gather(*(client.create(RESOURCE_CLAIMS, claim(name)) for name in names))
        for name in names:
            await in_phase(client, name, "Running")
        # What comes after them is written after all that they gave rise to.
        await client.create(PODS, pod("last", "last"))
        await client.create(RESOURCE_CLAIMS, claim("last"))

        async def is_last_seen() -> bool:
            return "last" in written

        assert await until(is_last_seen)
    assert written == Counter([*names, "last"])


async def test_plugin_resources_of_hollow_nodes_run_out(tmp_path: Path) -> None:
    async with sim_cluster(tmp_path, small(1)) as client:
        limits = {"limits": {"example.com/plugin": "3"}}
        for name in ("a", "b"):
            container = {"name": "c", "image": "i", "resources": limits}
            await client.create(PODS, pod(name, containers=[container]))
        await in_phase(client, "a", "Running")

        async def is_told() -> bool:
            conditions = (await client.get(PODS, "b", namespace=NS)).status.conditions
            return any("Insufficient example.com/plugin" in one.message for one in conditions)

        assert await until(is_told)
        await client.delete(PODS, "a", namespace=NS)
        await in_phase(client, "b", "Running")


class LateClock(SystemClock):
    """For which everything was long ago: what is not worth telling at once is told."""

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=PATIENCE)


async def test_a_pod_that_was_bound_past_the_scheduler_waits_for_its_claim(tmp_path: Path) -> None:
    async with server(tmp_path) as client, fleet(client, small(1), LateClock()):
        await client.create(PODS, pod("a", "a", node="n-0"))

        async def waits_for() -> str:
            statuses = (await client.get(PODS, "a", namespace=NS)).status.container_statuses
            waiting = statuses[0].state.waiting if statuses else None
            return "" if waiting is None else waiting.message

        assert await until(waits_for) == "claim a: is not there yet"
        made = await client.create(RESOURCE_CLAIMS, claim("a"))

        async def is_next() -> bool:
            return await waits_for() == "claim a: is not allocated yet"

        assert await until(is_next)
        uid = (await client.get(PODS, "a", namespace=NS)).metadata.uid
        result = {"request": "r", "driver": "gpu.example.com", "pool": "n-0", "device": "gpu-0"}
        status = {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": "a", "uid": uid}],
        }
        await client.patch(
            RESOURCE_CLAIMS, made.metadata.name, {"status": status}, namespace=NS, subresource="status"
        )
        await in_phase(client, "a", "Running")


async def test_after_a_restart_of_the_fleet_pods_go_on(tmp_path: Path) -> None:
    async with server(tmp_path) as client:
        async with fleet(client, small(1)):
            await client.create(PODS, pod("a", node="n-0", runs_for="1s"))
            await client.create(PODS, pod("b", node="n-0"))
            started = (await in_phase(client, "a", "Running")).status.start_time
            await in_phase(client, "b", "Running")
        await client.delete(PODS, "b", namespace=NS)
        async with fleet(client, small(1)):
            done = await in_phase(client, "a", "Succeeded")
            assert done.status.start_time == started

            async def is_deleted() -> bool:
                return await is_gone(client, "b")

            assert await until(is_deleted)


async def test_what_passes_by_itself_is_not_written(tmp_path: Path) -> None:
    """A pod that is bound is heard of before the allocation of its claim: nobody is told that it waits."""
    async with server(tmp_path) as client, fleet(client, small(1)):
        made = await client.create(PODS, pod("a", "a", node="n-0"))
        await client.create(PODS, pod("b", node="n-0"))
        await in_phase(client, "b", "Running")  # so the first was looked at too
        seen = await client.get(PODS, "a", namespace=NS)
        assert seen.metadata.resource_version == made.metadata.resource_version


async def test_a_card_is_given_whole_or_in_parts_and_never_both(tmp_path: Path) -> None:
    async with sim_cluster(tmp_path, load_profile("h200x8-mig")) as client:
        part = "device.attributes['gpu.nvidia.com'].profile == '1g.18gb'"
        await client.create(RESOURCE_CLAIMS, claim("all", 8, "gpu.nvidia.com"))
        await client.create(RESOURCE_CLAIMS, claim("part", 1, "mig.nvidia.com", part))
        await client.create(PODS, pod("all", "all"))
        await in_phase(client, "all", "Running")
        await client.create(PODS, pod("part", "part"))

        async def is_refused() -> bool:
            conditions = (await client.get(PODS, "part", namespace=NS)).status.conditions
            return any("nodes are available" in one.message for one in conditions)

        assert await until(is_refused)
        await client.delete(PODS, "all", namespace=NS)
        await in_phase(client, "part", "Running")
        given = (await get_claim(client, "part")).status.allocation
        assert given is not None and given.devices.results[0].device.startswith("gpu-0-mig-1g18gb-19-")
