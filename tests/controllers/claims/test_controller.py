"""The claim controller over HTTP: the life of a claim, refusals, conflicts, kills, and two at once."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from dray.api.kinds import EVENTS, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from dray.api.limits import POD_CLAIM_NAME_ANNOTATION
from dray.client.client import Client
from dray.controllers.claims.controller import ClaimController, ClaimControllerConfig, claim_controller
from dray.controllers.claims.naming import claim_name
from dray.controllers.pictures import Surroundings
from dray.errors import ConflictError, UnavailableError
from dray.runtime.clock import FakeClock
from dray.runtime.quarantine import object_key
from dray.runtime.tasks import running
from dray.testing.check.api_server import Place
from tests.campaign import seeds
from tests.controllers.objects import Json, pod_document, template_document, user
from tests.controllers.server import Cluster, cluster
from tests.deadly import make_deadly
from tests.waiting import wait_until

Both = tuple[Cluster, Client]


@pytest.fixture
async def both(tmp_path: Path) -> AsyncIterator[Both]:
    async with cluster(tmp_path) as found:
        yield found


def recorded(api: Cluster, name: str = "p") -> dict[str, str]:
    statuses = api.find(PODS, name).get("status", {}).get("resourceClaimStatuses", [])
    return {one["name"]: one["resourceClaimName"] for one in statuses}


def claims(api: Cluster) -> list[Json]:
    return api.every(RESOURCE_CLAIMS)


async def add_pod(api: Cluster, name: str = "p", **kwargs: Any) -> Json:
    return await api.add_pod(pod_document(name, **{"claims": {"a": "t"}, **kwargs}))


async def looked_at(api: Cluster) -> None:
    """A pod that comes last gets its claim and goes with it: all that was before has been looked at."""
    await add_pod(api, "last")
    await wait_until(lambda: recorded(api, "last"))
    await api.remove(PODS, "last")
    await wait_until(lambda: not any(one["metadata"]["name"].startswith("last") for one in claims(api)))


def user_of(pod: Json) -> Json:
    return user(pod["metadata"]["name"], pod["metadata"]["uid"])


async def test_a_pod_gets_its_claim_with_fields_that_are_unknown_here(both: Both) -> None:
    api, client = both
    template = template_document()
    template["spec"]["spec"]["devices"]["fromTheFuture"] = {"a": 1}
    await api.add(RESOURCE_CLAIM_TEMPLATES, template)
    async with claim_controller(client):
        pod = await add_pod(api)
        await wait_until(lambda: recorded(api))
        (claim,) = claims(api)
        assert recorded(api) == {"a": claim["metadata"]["name"]}
        assert claim["metadata"]["name"] == claim_name("p", pod["metadata"]["uid"], "a")
        assert claim["metadata"]["generateName"] == "p-a-"
        assert claim["spec"]["devices"]["fromTheFuture"] == {"a": 1}
        assert api.find(PODS, "p")["status"]["phase"] == "Pending"
    assert api.refused == []


async def test_life_of_a_claim(both: Both) -> None:
    api, client = both
    await api.add_template()
    async with claim_controller(client):
        pod = await add_pod(api)
        await wait_until(lambda: recorded(api))
        name = recorded(api)["a"]
        await api.allocate(name, [user_of(pod)])
        await api.change(PODS, "p", spec={"nodeName": "n"}, status={"phase": "Running"})
        await looked_at(api)
        assert claims(api)[0]["status"]["reservedFor"] == [user_of(pod)]
        await api.change(PODS, "p", status={"phase": "Succeeded"})
        await wait_until(lambda: not claims(api))
        deleted = [one for one in api.history if one.plural == "resourceclaims"][-1].document
        assert "finalizers" not in deleted["metadata"]
        assert "allocation" not in deleted["status"]
        await looked_at(api)
        assert claims(api) == []  # and it is not made again for the pod that has ended
    assert api.refused == []


async def test_a_pod_that_goes_takes_its_claim_along(both: Both) -> None:
    api, client = both
    await api.add_template()
    async with claim_controller(client):
        pod = await add_pod(api)
        await wait_until(lambda: recorded(api))
        await api.allocate(recorded(api)["a"], [user_of(pod)])
        await api.remove(PODS, "p")
        await wait_until(lambda: not claims(api))


async def test_what_went_while_nobody_looked_is_cleaned_up_at_the_start(both: Both) -> None:
    api, client = both
    await api.add_template()
    async with claim_controller(client):
        pod = await add_pod(api)
        await wait_until(lambda: recorded(api))
    await api.allocate(recorded(api)["a"], [user_of(pod)])
    shared = {"metadata": {"name": "s"}, "spec": template_document()["spec"]["spec"]}
    await api.add(RESOURCE_CLAIMS, shared)
    await api.allocate("s", [user_of(pod)])
    await api.remove(PODS, "p")
    async with claim_controller(client):
        await wait_until(lambda: [one["metadata"]["name"] for one in claims(api)] == ["s"])
        await wait_until(lambda: "finalizers" not in claims(api)[0]["metadata"])
        assert claims(api)[0]["status"] == {}


async def test_a_pod_that_bypassed_the_scheduler_is_let_in(both: Both) -> None:
    api, client = both
    await api.add(RESOURCE_CLAIMS, {"metadata": {"name": "s"}, "spec": template_document()["spec"]["spec"]})
    other = pod_document("q", static={"a": "s"}, node="n", phase="Running")
    async with claim_controller(client):
        pod = await add_pod(api, claims=None, static={"a": "s"}, node="n")
        await api.allocate("s", [])
        await wait_until(lambda: user_of(pod) in claims(api)[0]["status"].get("reservedFor", []))
        second = await api.add_pod(other)
        await wait_until(lambda: len(claims(api)[0]["status"]["reservedFor"]) == 2)
        assert claims(api)[0]["status"]["reservedFor"] == [user_of(pod), user_of(second)]


async def test_a_missing_template_is_told_and_awaited(both: Both) -> None:
    api, client = both
    clock = FakeClock()
    async with claim_controller(client, clock=clock):
        await add_pod(api)
        async with asyncio.timeout(60):
            while not any(one.get("count", 0) > 2 for one in api.every(EVENTS)):
                await clock.advance(1)
                await asyncio.sleep(0.005)
        (event,) = api.every(EVENTS)
        assert event["reason"] == "FailedResourceClaimCreation"
        assert event["message"].startswith('PodResourceClaim a: resource claim template "t" not found')
        await api.add_template()
        await wait_until(lambda: recorded(api))  # without time in which the queue would try again


async def test_create_conflict_with_a_stranger_takes_another_name(both: Both) -> None:
    api, client = both
    pod = await add_pod(api)
    taken = claim_name("p", pod["metadata"]["uid"], "a")
    stranger = {"metadata": {"name": taken}, "spec": template_document()["spec"]["spec"]}

    def slip_in(method: str, place: Place, is_done: bool) -> None:
        """Between the controller's look and its write."""
        if method == "POST" and place.resource is RESOURCE_CLAIMS and not is_done and not claims(api):
            api.objects["resourceclaims", "default", taken] = _stored(api, stranger)

    api.fails = slip_in
    await api.add_template()
    async with claim_controller(client):
        await wait_until(lambda: recorded(api))
    assert recorded(api) == {"a": claim_name("p", pod["metadata"]["uid"], "a", 1)}
    assert len(claims(api)) == 2


def _stored(api: Cluster, document: Json) -> Json:
    extra = {"uid": "stranger", "namespace": "default", "resourceVersion": str(api.version)}
    return (
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
        | document
        | {"metadata": document["metadata"] | extra}
    )


@pytest.mark.parametrize("kind", [PODS, RESOURCE_CLAIMS])
async def test_writes_that_fail_before_or_after_are_done_once(both: Both, kind: Any) -> None:
    api, client = both
    left = {False: 2, True: 1}

    def fail(method: str, place: Place, is_done: bool) -> None:
        if place.resource is kind and left[is_done]:
            left[is_done] -= 1
            raise UnavailableError("the answer is lost") if is_done else ConflictError("somebody wrote first")

    api.fails = fail
    await api.add_template()
    async with claim_controller(client):
        await add_pod(api)
        await wait_until(lambda: recorded(api) and left == {False: 0, True: 0})
        await wait_until(lambda: len(claims(api)) == 1)


async def test_a_claim_that_somebody_deletes_is_made_again(both: Both) -> None:
    api, client = both
    await api.add_template()
    async with claim_controller(client):
        await add_pod(api)
        await wait_until(lambda: recorded(api))
        before = claims(api)[0]["metadata"]["uid"]
        await api.remove(RESOURCE_CLAIMS, recorded(api)["a"])
        await wait_until(lambda: claims(api) and claims(api)[0]["metadata"]["uid"] != before)
        assert recorded(api) == {"a": claims(api)[0]["metadata"]["name"]}


async def test_a_recorded_claim_that_only_the_cache_lacks_is_not_made_twice(both: Both) -> None:
    """Another controller made it under a name of its own, and the watch of claims is slower than that of pods."""
    api, client = both
    await api.add_template()
    async with claim_controller(client) as controller:
        await wait_until(lambda: controller.queue.is_idle)
        pod = await add_pod(api, claims={})
        uid = pod["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": True}
        metadata = {
            "name": "theirs",
            "ownerReferences": [owner],
            "annotations": {POD_CLAIM_NAME_ANNOTATION: "a"},
        }
        api.objects["resourceclaims", "default", "theirs"] = _stored(api, {"metadata": metadata, "spec": {}})
        wanted = pod_document(claims={"a": "t"}, recorded={"a": "theirs"})
        await api.change(PODS, "p", spec=wanted["spec"], status=wanted["status"])
        await looked_at(api)
        assert [one["metadata"]["name"] for one in claims(api)] == ["theirs"]
        del api.objects["resourceclaims", "default", "theirs"]
        await api.change(PODS, "p", metadata={"labels": {"look": "again"}})
        await wait_until(lambda: recorded(api) == {"a": claim_name("p", uid, "a")})


def settled(api: Cluster, controllers: list[ClaimController]) -> bool:
    """Nothing waits, every pod has its claims, and no claim is without its pod."""
    pods = {one["metadata"]["uid"]: one for one in api.every(PODS)}
    owners = Counter(
        (
            one["metadata"]["ownerReferences"][0]["uid"],
            one["metadata"]["annotations"][POD_CLAIM_NAME_ANNOTATION],
        )
        for one in claims(api)
    )
    wanted = {(uid, entry["name"]) for uid, pod in pods.items() for entry in pod["spec"]["resourceClaims"]}
    return all(one.queue.is_idle for one in controllers) and owners.keys() == wanted


@pytest.mark.parametrize("seed", seeds(1, 40))
async def test_two_at_once_with_kills_make_every_claim_once_and_leave_none(both: Both, seed: int) -> None:
    api, client = both
    rng = random.Random(seed)
    doubles: list[str] = []

    def check(method: str, place: Place, is_done: bool) -> None:
        if is_done and method == "POST" and place.resource is RESOURCE_CLAIMS:
            found = Counter(
                one["metadata"]["ownerReferences"][0]["uid"]
                + one["metadata"]["annotations"][POD_CLAIM_NAME_ANNOTATION]
                for one in claims(api)
            )
            doubles.extend(key for key, count in found.items() if count > 1)
        if rng.random() < 0.1:
            raise UnavailableError("cut") if is_done else ConflictError("busy")

    api.fails = check
    await api.add_template()
    for turn in range(4):
        await _one_turn(api, client, rng, turn)
    assert doubles == []
    api.fails = None
    async with claim_controller(client) as controller:
        for pod in api.every(PODS):
            await api.remove(PODS, pod["metadata"]["name"])
        await wait_until(lambda: not claims(api) and controller.queue.is_idle)
    assert api.refused == []


async def _one_turn(api: Cluster, client: Client, rng: random.Random, turn: int) -> None:
    async with AsyncExitStack() as stack:
        controllers = [await stack.enter_async_context(claim_controller(client)) for _ in range(2)]
        for number in range(8):
            entries = dict.fromkeys("abc"[: rng.randint(1, 3)], "t")
            await add_pod(api, f"p{turn}-{number}", claims=entries)
            if rng.random() < 0.4:
                await _disturb(api, rng)
            await asyncio.sleep(0.01 * rng.random())
        if turn % 2 == 0:  # else they are killed in the middle of it
            await wait_until(lambda: settled(api, controllers))


async def _disturb(api: Cluster, rng: random.Random) -> None:
    """A scheduler allocates, a pod goes, a name comes back as another pod."""
    pod = rng.choice(api.every(PODS))
    name = pod["metadata"]["name"]
    match rng.randrange(3):
        case 0:
            for claim in recorded(api, name).values():
                if api.find(RESOURCE_CLAIMS, claim):
                    await api.allocate(claim, [user_of(pod)])
        case 1:
            await api.remove(PODS, name)
        case _:
            await api.remove(PODS, name)
            await add_pod(api, name)


async def test_a_pod_that_ended_the_controllers_is_left_alone_and_others_are_not(
    both: Both, tmp_path: Path
) -> None:
    api, client = both
    await api.add_template()
    pod = (await add_pod(api, "deadly"))["metadata"]
    make_deadly(tmp_path / "state", object_key("pods", pod["namespace"], pod["name"], pod["uid"]))
    around = Surroundings.of(client, state_dir=tmp_path / "state")
    controller = ClaimController(around, ClaimControllerConfig())
    with around.quarantine:
        async with around.pictures, running(controller.run(), name="claims"):
            await looked_at(api)
            assert recorded(api, "deadly") == {} and claims(api) == []
            await wait_until(lambda: api.every(EVENTS))
    (event,) = api.every(EVENTS)
    assert (event["reason"], event["involvedObject"]["name"]) == ("SetAside", "deadly")
    assert "Dray ended 3 times while it handled this object" in event["message"]
