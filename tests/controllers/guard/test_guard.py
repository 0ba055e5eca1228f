"""The guard against a server that stores what it lets through: sooner, later, or never."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dray.api.kinds import CONFIG_MAPS, RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.client.client import Client
from dray.client.leader import LeadershipLostError
from dray.controllers.guard.guard import Guard, GuardConfig
from dray.controllers.guard.settling import FENCE_ANNOTATION, SettlingConfig
from dray.controllers.metrics import ControllerMetrics
from dray.errors import NotFoundError, UnavailableError
from dray.runtime.clock import SystemClock
from dray.testing.check.api_server import Place
from tests.campaign import seeds
from tests.controllers.guard.reviews import add_claims, found, result, review, store
from tests.controllers.objects import NS, Json
from tests.controllers.server import Cluster, cluster
from tests.waiting import wait_until

Both = tuple[Cluster, Client]
QUICK = SettlingConfig(first=0.02, pause=0.02, fence=0.1)
PATIENT = SettlingConfig(first=60.0, pause=60.0, fence=60.0)


@pytest.fixture
async def both(tmp_path: Path) -> AsyncIterator[Both]:
    async with cluster(tmp_path) as found:
        yield found


@asynccontextmanager
async def guarding(
    client: Client, settling: SettlingConfig = PATIENT, *, identity: str = "a", **config: Any
) -> AsyncIterator[Guard]:
    guard = Guard(
        client, GuardConfig("default", settling=settling, **config), SystemClock(), ControllerMetrics()
    )
    async with guard.leading(identity):
        yield guard


async def status(guard: Guard, claim: Json, *results: Json, **options: Any) -> HTTPStatus:
    return (await guard.review(review(claim, *results, **options))).status


async def test_it_refuses_everything_until_it_leads_and_after(both: Both) -> None:
    api, client = both
    (claim,) = await add_claims(api, "c")
    guard = Guard(client, GuardConfig("default"), SystemClock(), ControllerMetrics())
    assert await status(guard, claim, result()) is HTTPStatus.SERVICE_UNAVAILABLE
    async with guard.leading("a"):
        assert await status(guard, claim, result()) is HTTPStatus.OK
    assert await status(guard, claim, result()) is HTTPStatus.SERVICE_UNAVAILABLE


async def test_what_is_let_through_counts_at_once_and_what_is_stored_goes_on_counting(both: Both) -> None:
    api, client = both
    one, two = await add_claims(api, "one", "two")
    async with guarding(client) as guard:
        assert await status(guard, one, result()) is HTTPStatus.OK
        answer = await guard.review(review(two, result()))
        assert (answer.status, answer.message) == (
            HTTPStatus.FORBIDDEN,
            f"device d.example/n/g0 is being allocated to claim {NS}/one",
        )
        assert await store(api, one, result())
        await wait_until(lambda: guard.reserved == 0)
        answer = await guard.review(review(two, result("g1"), result()))
        assert answer.message == f"device d.example/n/g0 is already allocated to claim {NS}/one"
        assert await status(guard, two, result("g1")) is HTTPStatus.OK
        # What is no new allocation is nobody's business.
        assert await status(guard, found(api, "one"), result()) is HTTPStatus.OK
        assert await status(guard, two) is HTTPStatus.OK


async def test_two_at_once_for_one_device_are_one(both: Both) -> None:
    api, client = both
    claims = await add_claims(api, *(f"c{number}" for number in range(20)))
    async with guarding(client) as guard:
        answers = await asyncio.gather(*(status(guard, claim, result()) for claim in claims))
    assert answers.count(HTTPStatus.OK) == 1


async def test_a_device_is_free_as_soon_as_its_claim_let_go_even_before_the_watch_tells(both: Both) -> None:
    api, client = both
    one, two = await add_claims(api, "one", "two")
    await store(api, one, result())
    async with guarding(client) as guard:
        assert await status(guard, two, result()) is HTTPStatus.FORBIDDEN
        await store(api, found(api, "one"))
        assert await status(guard, two, result()) is HTTPStatus.OK  # the holder is read anew before a refusal
        await api.remove(RESOURCE_CLAIMS, "two")
        (three,) = await add_claims(api, "three")
        assert await status(guard, three, result()) is HTTPStatus.OK


async def test_a_dry_run_is_checked_and_reserves_nothing(both: Both) -> None:
    api, client = both
    one, two = await add_claims(api, "one", "two")
    async with guarding(client) as guard:
        assert await status(guard, one, result(), dry_run=True) is HTTPStatus.OK
        assert guard.reserved == 0
        assert await status(guard, two, result()) is HTTPStatus.OK
        assert await status(guard, one, result(), dry_run=True) is HTTPStatus.FORBIDDEN


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1beta2"])
async def test_shares_go_together_and_admin_access_with_everything(both: Both, version: str) -> None:
    api, client = both
    one, two, three = await add_claims(api, "one", "two", "three")
    share = result(shareID="00000000-0000-4000-8000-000000000001")
    other = result(shareID="00000000-0000-4000-8000-000000000002")
    async with guarding(client) as guard:
        assert await status(guard, one, share, version=version) is HTTPStatus.OK
        assert await status(guard, two, other, version=version) is HTTPStatus.OK
        assert await status(guard, three, share, version=version) is HTTPStatus.FORBIDDEN
        assert await status(guard, three, result(), version=version) is HTTPStatus.FORBIDDEN
        assert await status(guard, three, result(adminAccess=True), version=version) is HTTPStatus.OK
        assert await status(guard, three, result("g9"), result("g9"), version=version) is HTTPStatus.FORBIDDEN


async def test_counters_and_capacity_cannot_be_overdrawn(both: Both) -> None:
    api, client = both
    takes: Json = {"consumesCounters": [{"counterSet": "s", "counters": {"m": {"value": "3"}}}]}
    big: Json = {"name": "big", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "10Gi"}}}
    for name, part in (
        ("s1", {"sharedCounters": [{"name": "s", "counters": {"m": {"value": "5"}}}]}),
        ("s2", {"devices": [{"name": "p0", **takes}, {"name": "p1", **takes}, big]}),
    ):
        pool = {"name": "n", "generation": 1, "resourceSliceCount": 2}
        spec = {"driver": "d.example", "nodeName": "n", "pool": pool, **part}
        await api.add(RESOURCE_SLICES, {"metadata": {"name": name}, "spec": spec})
    one, two, three, four = await add_claims(api, "one", "two", "three", "four")

    def share(number: int, amount: str) -> Json:
        return result(
            "big",
            shareID=f"00000000-0000-4000-8000-00000000000{number}",
            consumedCapacity={"memory": amount},
        )

    async with guarding(client) as guard:
        assert await status(guard, one, result("p0")) is HTTPStatus.OK
        answer = await guard.review(review(two, result("p1")))
        assert answer.message == "counter s/m of pool n: 5 is all there is"
        assert await status(guard, three, share(1, "6Gi")) is HTTPStatus.OK
        answer = await guard.review(review(four, share(2, "5Gi")))
        assert answer.message == "capacity memory of device big: 10Gi is all there is"
        assert await status(guard, four, share(2, "4Gi")) is HTTPStatus.OK


async def test_a_write_that_is_refused_later_frees_the_device_when_that_is_certain(both: Both) -> None:
    api, client = both
    one, two, three = await add_claims(api, "one", "two", "three")
    async with guarding(client) as guard:
        assert await status(guard, one, result()) is HTTPStatus.OK
        await api.change(RESOURCE_CLAIMS, "one", metadata={"labels": {"a": "b"}})
        assert not await store(api, one, result())  # the conflict
        assert await status(guard, two, result()) is HTTPStatus.OK
        await api.remove(RESOURCE_CLAIMS, "two")
        assert await status(guard, three, result()) is HTTPStatus.OK


async def test_a_write_of_which_nothing_is_heard_is_shut_out(both: Both) -> None:
    api, client = both
    one, two = await add_claims(api, "one", "two")
    async with guarding(client, QUICK) as guard:
        assert await status(guard, one, result()) is HTTPStatus.OK
        assert await status(guard, two, result()) is HTTPStatus.FORBIDDEN
        await wait_until(lambda: guard.reserved == 0)
        assert found(api, "one")["metadata"]["annotations"] == {
            FENCE_ANNOTATION: one["metadata"]["resourceVersion"]
        }
        assert await status(guard, two, result()) is HTTPStatus.OK
        assert not await store(api, one, result())  # it comes after all
        assert await store(api, two, result())


async def test_the_same_write_again_shares_its_reservation_and_another_of_the_claim_has_its_own(
    both: Both,
) -> None:
    api, client = both
    one, two = await add_claims(api, "one", "two")
    async with guarding(client) as guard:
        for _ in range(3):
            assert await status(guard, one, result()) is HTTPStatus.OK
        assert guard.reserved == 1
        assert await status(guard, one, result("g1")) is HTTPStatus.OK
        assert guard.reserved == 2
        for device in ("g0", "g1"):  # either may be stored
            assert await status(guard, two, result(device)) is HTTPStatus.FORBIDDEN
        await store(api, one, result("g1"))
        assert await status(guard, two, result("g0")) is HTTPStatus.OK


async def test_too_many_on_their_way_are_turned_away(both: Both) -> None:
    api, client = both
    one, two = await add_claims(api, "one", "two")
    async with guarding(client, most_devices=1) as guard:
        assert await status(guard, one, result()) is HTTPStatus.OK
        assert await status(guard, two, result("g1")) is HTTPStatus.SERVICE_UNAVAILABLE
        await store(api, one, result())
        await wait_until(lambda: guard.reserved == 0)
        assert await status(guard, two, result("g1")) is HTTPStatus.OK


async def test_who_waits_too_long_is_refused_and_what_was_reserved_is_settled(both: Both) -> None:
    api, client = both
    one, two = await add_claims(api, "one", "two")
    async with guarding(client, QUICK, seconds=0.1) as guard:
        api.stuck = CONFIG_MAPS
        assert await status(guard, one, result()) is HTTPStatus.SERVICE_UNAVAILABLE
        api.stuck = None
        await wait_until(lambda: guard.reserved == 0)
        assert await status(guard, two, result()) is HTTPStatus.OK


async def test_what_a_killed_guard_let_through_is_known_to_the_next(both: Both) -> None:
    api, client = both
    one, two = await add_claims(api, "one", "two")
    async with guarding(client) as guard:
        assert await status(guard, one, result()) is HTTPStatus.OK
    async with guarding(client, identity="b") as guard:
        assert guard.reserved == 1
        assert await status(guard, two, result()) is HTTPStatus.FORBIDDEN
        assert await store(api, one, result())  # the API server was slow
        assert await status(guard, two, result()) is HTTPStatus.FORBIDDEN
        await wait_until(lambda: guard.reserved == 0)
    async with guarding(client, identity="c") as guard:
        assert guard.reserved == 0


async def test_a_guard_that_was_replaced_cannot_let_anything_through(both: Both) -> None:
    api, client = both
    (one,) = await add_claims(api, "one")
    with pytest.raises(LeadershipLostError, match="belongs to b now"):
        async with guarding(client) as old, AsyncExitStack() as stack:
            await stack.enter_async_context(guarding(client, identity="b"))
            assert await status(old, one, result()) is HTTPStatus.SERVICE_UNAVAILABLE
            await asyncio.sleep(60)


async def test_without_its_journal_it_refuses(both: Both) -> None:
    api, client = both
    one, two = await add_claims(api, "one", "two")

    def away(method: str, place: Place, is_done: bool) -> None:
        if place.resource is CONFIG_MAPS and not is_done:
            raise UnavailableError("not now")

    async with guarding(client) as guard:
        api.fails = away
        assert await status(guard, one, result()) is HTTPStatus.SERVICE_UNAVAILABLE
        assert guard.reserved == 0
        api.fails = None
        assert await status(guard, two, result()) is HTTPStatus.OK


async def test_a_lost_answer_to_its_own_write_is_no_other_guard(both: Both) -> None:
    api, client = both
    one, two = await add_claims(api, "one", "two")
    lost = iter([True])

    def cut(method: str, place: Place, is_done: bool) -> None:
        if place.resource is CONFIG_MAPS and is_done and next(lost, False):
            raise UnavailableError("cut")

    async with guarding(client) as guard:
        api.fails = cut
        assert await status(guard, one, result()) is HTTPStatus.SERVICE_UNAVAILABLE
        assert await status(guard, two, result()) is HTTPStatus.OK


@pytest.mark.parametrize("seed", seeds(3, 200))
async def test_writers_faults_and_kills_never_store_a_device_twice(both: Both, seed: int) -> None:
    """The server stores what was let through after a random time, or never; guards are killed meanwhile."""
    api, client = both
    rng = random.Random(seed)
    names = [f"c{number}" for number in range(6)]
    await add_claims(api, *names)
    current: list[Guard] = []
    fates: Counter[str] = Counter()

    async def write(name: str) -> str:
        claim = found(api, name)
        devices = [result(one) for one in rng.sample(["g0", "g1", "g2", "g3"], rng.randint(1, 2))]
        if claim.get("status", {}).get("allocation"):
            await store(api, claim)
            return "freed"
        if (await current[-1].review(review(claim, *devices))).status is not HTTPStatus.OK:
            return "refused"
        await asyncio.sleep(rng.choice([0, 0, 0.001, 0.01, 0.05]))
        fate = rng.random()
        if fate < 0.1:
            return "never"  # refused by somebody else, or its API server died
        if fate < 0.2:
            await api.change(RESOURCE_CLAIMS, name, metadata={"labels": {"n": str(rng.random())}})
        return "stored" if await store(api, claim, *devices) else "conflict"

    async def writer() -> None:
        for _ in range(40):
            fates[await write(rng.choice(names))] += 1
            check_once(api)
            await asyncio.sleep(0.005 * rng.random())

    async with AsyncExitStack() as stack:
        writers: list[asyncio.Task[None]] = []
        for turn in range(100):
            settling = SettlingConfig(first=0.01, pause=0.01, fence=0.03)
            async with guarding(client, settling, identity=f"guard-{turn}") as guard:
                current.append(guard)
                if turn == 0:
                    group = await stack.enter_async_context(asyncio.TaskGroup())
                    writers = [group.create_task(writer()) for _ in range(4)]
                # Left in the middle of it: whoever asks then is refused until the next one leads.
                await asyncio.sleep(0.05 + 0.1 * rng.random())
            if all(one.done() for one in writers):
                break
    assert fates["stored"] > 5 and fates["refused"] > 5, fates


def check_once(api: Cluster) -> None:
    """No device is in two claims, now."""
    holders = [
        (one["device"], claim["metadata"]["name"])
        for claim in api.every(RESOURCE_CLAIMS)
        for one in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
    ]
    for (device, holder), (other, another) in pairwise(sorted(holders)):
        assert device != other, f"{device} is held by {holder} and {another}"


async def test_a_config_map_that_somebody_deleted_ends_it(both: Both) -> None:
    api, client = both
    (one,) = await add_claims(api, "one")
    with pytest.raises(LeadershipLostError, match="deleted"):
        async with guarding(client) as guard:
            await client.delete(CONFIG_MAPS, "dray-guard", namespace="default")
            assert await status(guard, one, result()) is HTTPStatus.SERVICE_UNAVAILABLE
            await asyncio.sleep(60)
    with pytest.raises(NotFoundError):
        await client.get(CONFIG_MAPS, "dray-guard", namespace="default")
