"""The claim controller over the embedded server, with PodGroups: they are of a kind that a server may lack."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dray.api.kinds import EVENTS, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from dray.api.limits import CLAIM_FINALIZER
from dray.api.scheduling import POD_GROUPS
from dray.apiserver.http.server import Address
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.client.requests import DeleteOptions, Selection
from dray.controllers.claims.controller import ClaimControllerConfig, claim_controller
from dray.controllers.claims.group_plan import plan_group
from dray.controllers.claims.naming import claim_name
from dray.controllers.claims.picture import LivePicture
from dray.controllers.claims.triggers import Work
from dray.controllers.pictures import Pictures
from dray.processes.apiserver import ApiServerOptions, api_server
from dray.runtime.clock import SystemClock
from tests.controllers.claims.groups import OFF, ON, group, group_claim, group_document
from tests.controllers.claims.test_pod_plan import told
from tests.controllers.objects import NS, Json, pod_document, template_document
from tests.waiting import until

CONFIG = ClaimControllerConfig(ON)


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with (
        api_server(ApiServerOptions(tmp_path / "data", Address())) as server,
        Client(find_access(server.kubeconfig)) as client,
    ):
        await client.create(RESOURCE_CLAIM_TEMPLATES, without_uid(template_document()))
        yield client


def without_uid(document: Json) -> Json:
    return document | {"metadata": {"name": document["metadata"]["name"], "namespace": NS}}


async def add_group(client: Client, **kwargs: Any) -> str:
    made = await client.create(POD_GROUPS, without_uid(group_document(**{"claims": {"a": "t"}, **kwargs})))
    return made.metadata.uid


async def add_pod(client: Client, name: str, **kwargs: Any) -> None:
    document = without_uid(pod_document(name, **{"claims": {"a": "t"}, **kwargs}))
    document["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    await client.create(PODS, document)


async def recorded(client: Client, name: str) -> dict[str, str | None]:
    pod = await client.get(PODS, name, namespace=NS)
    return {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses}


async def claims(client: Client) -> list[str]:
    found = await client.list(RESOURCE_CLAIMS, Selection(NS))
    return [one.metadata.name for one in found.items]


async def has_claim(client: Client, name: str) -> bool:
    return name in await claims(client)


async def allocate(client: Client, name: str, users: list[Json]) -> None:
    """What a scheduler does."""
    await client.patch(RESOURCE_CLAIMS, name, {"metadata": {"finalizers": [CLAIM_FINALIZER]}}, namespace=NS)
    result = {"request": "r", "driver": "d.example", "pool": "n", "device": "g0"}
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": users}
    await client.patch(RESOURCE_CLAIMS, name, {"status": status}, namespace=NS, subresource="status")


async def test_the_pods_of_a_group_share_its_claim(client: Client) -> None:
    """Whichever comes first; one claim is made, recorded in the group and in each of its pods."""
    async with claim_controller(client, CONFIG):
        await add_pod(client, "first")
        uid = await add_group(client)
        await add_pod(client, "second")
        name = claim_name("g", uid, "a")
        for pod in ("first", "second"):
            await until(lambda pod=pod: recorded(client, pod))  # type: ignore[misc]
            assert await recorded(client, pod) == {"a": name}
        assert await claims(client) == [name]
        stored = await client.get(POD_GROUPS, "g", namespace=NS)
        (one,) = stored.status.resource_claim_statuses
        assert (one.name, one.resource_claim_name) == ("a", name)
        assert stored.spec.scheduling_policy == {"basic": {}}


async def test_a_reservation_goes_with_its_group(client: Client) -> None:
    async with claim_controller(client, CONFIG):
        uid = await add_group(client, static={"b": "own"})
        name = claim_name("g", uid, "a")
        await until(lambda: claims(client))
        await client.create(
            RESOURCE_CLAIMS,
            {"metadata": {"name": "own", "namespace": NS}, "spec": template_document()["spec"]["spec"]},
        )
        user = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": uid}
        await allocate(client, "own", [user])
        other = await add_group(client, name="last")  # so what was before it has been looked at
        await until(lambda: has_claim(client, claim_name("last", other, "a")))
        held = await client.get(RESOURCE_CLAIMS, "own", namespace=NS)
        assert [one.name for one in held.status.reserved_for] == ["g"]
        await client.delete(POD_GROUPS, "g", namespace=NS, options=DeleteOptions(uid=uid))

        async def is_free() -> bool:
            one = await client.get(RESOURCE_CLAIMS, "own", namespace=NS)
            return one.status.allocation is None and not one.metadata.finalizers

        await until(is_free)

        async def is_gone() -> bool:
            return name not in await claims(client)

        await until(is_gone)


async def test_a_pod_that_bypassed_the_scheduler_reserves_for_its_group(client: Client) -> None:
    async with claim_controller(client, CONFIG):
        uid = await add_group(client)
        name = claim_name("g", uid, "a")
        await until(lambda: claims(client))
        await allocate(client, name, [])
        await add_pod(client, "p", node="n")

        async def users() -> list[tuple[str, str]]:
            one = await client.get(RESOURCE_CLAIMS, name, namespace=NS)
            return [(user.resource, user.uid) for user in one.status.reserved_for]

        await until(users)
        assert await users() == [("podgroups", uid)]


async def test_a_claim_that_is_deleted_is_made_again(client: Client) -> None:
    async with claim_controller(client, CONFIG):
        name = claim_name("g", await add_group(client), "a")

        async def record() -> object:
            return (await client.get(POD_GROUPS, "g", namespace=NS)).status.resource_claim_statuses

        await until(record)
        first = await client.get(RESOURCE_CLAIMS, name, namespace=NS)
        await client.delete(RESOURCE_CLAIMS, name, namespace=NS, options=DeleteOptions())

        async def is_new() -> bool:
            found = (await client.list(RESOURCE_CLAIMS, Selection(NS))).items
            return [one.metadata.name for one in found if one.metadata.uid != first.metadata.uid] == [name]

        await until(is_new)


async def test_a_group_is_told_that_it_waits_for_its_template(client: Client) -> None:
    async with claim_controller(client, CONFIG):
        uid = await add_group(client, claims={"a": "late"})

        async def told() -> bool:
            events = (await client.list(EVENTS)).items
            return [one.involved_object.kind for one in events] == ["PodGroup"]

        await until(told)
        assert await claims(client) == []
        await client.create(RESOURCE_CLAIM_TEMPLATES, without_uid(template_document("late")))
        await until(lambda: claims(client))
        assert await claims(client) == [claim_name("g", uid, "a")]


async def test_without_the_gate_a_pod_gets_its_own_claim(client: Client) -> None:
    async with claim_controller(client, ClaimControllerConfig(OFF)):
        uid = await add_group(client)
        await add_pod(client, "p")
        await until(lambda: recorded(client, "p"))
        pod = await client.get(PODS, "p", namespace=NS)
        assert await claims(client) == [claim_name("p", pod.metadata.uid, "a")]
        assert claim_name("g", uid, "a") not in await claims(client)


async def test_no_such_pod_and_no_such_podgroup(client: Client) -> None:
    """Keys of what is gone by the time it is their turn."""
    async with claim_controller(client, CONFIG) as controller:
        await add_group(client)
        await until(lambda: claims(client))
        for work in (Work("pod", NS, "none"), Work("podgroup", NS, "none"), Work("claim", NS, "none")):
            controller.queue.add(work)

        async def is_done() -> bool:
            return controller.queue.is_idle

        await until(is_done)
        assert len(await claims(client)) == 1


async def test_find_created_claim_in_cache_podgroup(client: Client) -> None:
    """What was made a moment ago counts before the watch has told."""
    clock = SystemClock()
    pictures = Pictures(client, clock)
    picture = LivePicture(pictures, clock, has_groups=True)
    async with pictures:
        mine = group(claims={"a": "t"})
        assert told(plan_group(mine, picture, ON))[0].startswith("create ")
        picture.remember(group_claim("mine"))
        assert told(plan_group(mine, picture, ON)) == ["record a=mine"]
