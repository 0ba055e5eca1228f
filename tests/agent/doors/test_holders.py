"""Who holds what, as a kubelet and an API server on real sockets tell it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from dray.agent.doors.holders import (
    AllocatedClaims,
    ClaimPicture,
    KubeletLooks,
    LookPace,
    devices_of,
)
from dray.api.kinds import RESOURCE_CLAIMS
from dray.deviceplugin.kubelet_notes import CHECKPOINT
from dray.errors import ConflictError
from dray.inventory.doors import Offered, offers, ways
from dray.inventory.holds import Holds
from dray.inventory.inventory import Inventory, InventoryFeed
from dray.runtime.clock import FakeClock, SystemClock
from dray.runtime.tasks import running
from tests.controllers.server import Cluster, cluster
from tests.inventory.conftest import claim, gpu
from tests.small_kubelet import SmallKubelet
from tests.waiting import wait_until

RESOURCE = "example.com/gpu"
ALL = Inventory(1, (gpu(1), gpu(2), gpu(3)))
NODE = "node-1"


@pytest.fixture
def kubelet(tmp_path: Path) -> SmallKubelet:
    directory = tmp_path / "device-plugins"
    directory.mkdir()
    return SmallKubelet(directory)


@pytest.fixture
def holds(tmp_path: Path) -> Iterator[Holds]:
    with Holds(tmp_path / "state" / "holds", FakeClock()) as holds:
        yield holds


def looks_of(
    kubelet: SmallKubelet, holds: Holds, clock: FakeClock | SystemClock, pace: LookPace
) -> KubeletLooks:
    return KubeletLooks(
        holds,
        clock,
        lambda: ALL.devices,
        kubelet_dir=kubelet.directory.parent,
        device_plugin_dir=kubelet.directory,
        pace=pace,
    )


def who(holds: Holds) -> dict[str, str]:
    return {hold.device: hold.holder for hold in holds.current.holds}


async def test_a_kubelet_that_does_not_answer_drops_nothing(kubelet: SmallKubelet, tmp_path: Path) -> None:
    clock = FakeClock()
    with Holds(tmp_path / "holds", clock) as holds:
        looks = looks_of(kubelet, holds, clock, LookPace())
        await holds.take_plugin(RESOURCE, [gpu(1)])
        await clock.advance(3600)
        for _ in range(3):
            assert not await looks.look()
        assert who(holds) == {"gpu-1": "a new pod"}
        async with kubelet.running():
            for _ in range(2):
                assert await looks.look()
        assert who(holds) == {}


async def test_pods_are_followed_from_the_answer_to_their_end(kubelet: SmallKubelet, tmp_path: Path) -> None:
    clock = FakeClock()
    pace = LookPace(first=1.0, most=4.0, rest=30.0, idle=300.0)
    with Holds(tmp_path / "holds", clock) as holds:
        async with kubelet.running(), running(looks_of(kubelet, holds, clock, pace).run(), name="looks"):

            async def wait_asleep() -> None:
                """The look that is under way has ended; the next one comes with the clock."""
                await wait_until(lambda: clock.sleepers == 1)

            async def pass_until(condition: str, seconds: float) -> None:
                """`condition` about gpu-1, not before and not after that time."""
                start = clock.monotonic()
                while (holder := who(holds).get("gpu-1", "")) != condition:
                    assert clock.monotonic() - start < seconds, f"{holder} is not {condition}"
                    await clock.advance(0.5)
                    await wait_asleep()

            await wait_until(lambda: kubelet.asked == 1)
            await wait_asleep()
            await holds.take_plugin(RESOURCE, [gpu(1)])
            await wait_until(lambda: kubelet.asked == 2)  # at once
            await wait_asleep()
            assert kubelet.asked == 2
            kubelet.pods = {"one": {RESOURCE: ["gpu-1"]}}
            await pass_until("pod default/one", 3.0)
            asked = kubelet.asked
            await clock.advance(29.0)
            await wait_asleep()
            assert kubelet.asked == asked  # all is known: the next look can wait
            kubelet.pods = {}
            await pass_until("", 10.0)


async def test_what_was_given_before_anybody_noted_is_found(kubelet: SmallKubelet, tmp_path: Path) -> None:
    kubelet.pods = {"old": {RESOURCE: ["gpu-2"], "example.com/other": ["x"]}}
    with Holds(tmp_path / "holds", FakeClock()) as holds:
        async with kubelet.running():
            await looks_of(kubelet, holds, FakeClock(), LookPace()).look()
        assert who(holds) == {"gpu-2": "pod default/old"}
        with pytest.raises(ConflictError, match="pod default/old"):
            await holds.take_claim(claim("a", gpu(2)))


async def test_an_init_container_keeps_its_device(kubelet: SmallKubelet, tmp_path: Path) -> None:
    """The kubelet does not list it while it runs, but has a note and a directory for its pod."""
    clock, pod = FakeClock(), tmp_path / "pods" / "uid-1"
    pod.mkdir(parents=True)
    entry = {"PodUID": "uid-1", "ResourceName": RESOURCE, "DeviceIDs": {"-1": ["gpu-1"]}}
    (kubelet.directory / CHECKPOINT).write_text(json.dumps({"Data": {"PodDeviceEntries": [entry]}}))
    with Holds(tmp_path / "holds", clock) as holds:
        holds.contest(ways(offers(ALL, lambda kind, resource: Offered.PLUGIN)))
        looks = looks_of(kubelet, holds, clock, LookPace())
        await holds.take_plugin(RESOURCE, [gpu(1), gpu(2)])
        async with kubelet.running():
            await clock.advance(3600)
            for _ in range(3):
                await looks.look()
            assert who(holds) == {"gpu-1": "a new pod"}
            pod.rmdir()
            await looks.look()
            assert who(holds) == {}


async def test_after_lost_state_the_kubelet_is_asked_until_all_is_known(
    kubelet: SmallKubelet, tmp_path: Path
) -> None:
    clock, path = FakeClock(), tmp_path / "holds"
    path.write_bytes(b"lost")
    with Holds(path, clock) as holds:
        looks = looks_of(kubelet, holds, clock, LookPace())
        async with kubelet.running(), running(looks.run(), name="looks"), asyncio.TaskGroup() as group:
            taking = group.create_task(holds.take_claim(claim("a", gpu(1))))
            while not taking.done():
                assert clock.monotonic() < 20.0
                await clock.advance(0.5)
                await asyncio.sleep(0.01)
        assert clock.monotonic() >= 10.0


async def test_a_wake_is_a_look(kubelet: SmallKubelet, holds: Holds) -> None:
    looks = looks_of(kubelet, holds, FakeClock(), LookPace())
    async with kubelet.running(), running(looks.run(), name="looks"):
        for asked in (1, 2, 3):
            await wait_until(lambda asked=asked: kubelet.asked == asked)  # type: ignore[misc]
            looks.wake()


def allocation(*results: dict[str, Any]) -> dict[str, Any]:
    ours = {"request": "r", "driver": "gpu.dray.internal", "pool": NODE, "device": "gpu-1"}
    return {"allocation": {"devices": {"results": [ours | result for result in results]}}}


def claim_document(name: str) -> dict[str, Any]:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"devices": {"requests": [request]}}}


@pytest.fixture
async def followed(tmp_path: Path, holds: Holds) -> AsyncIterator[tuple[Cluster, InventoryFeed]]:
    feed = InventoryFeed()
    feed.publish(ALL.devices)
    async with cluster(tmp_path) as (api, client):
        claims = AllocatedClaims(holds, client, NODE, feed, "{}.dray.internal".format, SystemClock())
        async with running(claims.run(), name="claims"):
            yield api, feed


async def test_claims_are_followed_from_their_allocation_to_their_end(
    followed: tuple[Cluster, InventoryFeed], holds: Holds
) -> None:
    api, _ = followed
    await api.add(RESOURCE_CLAIMS, claim_document("a"))
    await api.add(RESOURCE_CLAIMS, claim_document("b"), allocation({"device": "gpu-2"}, {"device": "gpu-3"}))
    await wait_until(lambda: who(holds) == {"gpu-2": "claim default/b", "gpu-3": "claim default/b"})
    with pytest.raises(ConflictError, match="claim default/b"):
        await holds.take_plugin(RESOURCE, [gpu(2)])
    await api.change(RESOURCE_CLAIMS, "a", status=allocation({}))
    await wait_until(lambda: "gpu-1" in who(holds))
    await api.put(RESOURCE_CLAIMS, api.find(RESOURCE_CLAIMS, "b") | {"status": {}})
    await wait_until(lambda: who(holds) == {"gpu-1": "claim default/a"})
    await api.remove(RESOURCE_CLAIMS, "a")
    await wait_until(lambda: who(holds) == {})


async def test_the_pods_of_claims_are_followed_too(tmp_path: Path, holds: Holds) -> None:
    feed = InventoryFeed()
    feed.publish(ALL.devices)
    users = [
        {"resource": "pods", "name": "p", "uid": "p-uid"},
        {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "g-uid"},
    ]
    async with cluster(tmp_path) as (api, client):
        claims = AllocatedClaims(holds, client, NODE, feed, "{}.dray.internal".format, SystemClock())
        async with running(claims.run(), name="claims"):
            made = await api.add(
                RESOURCE_CLAIMS, claim_document("a"), allocation({}) | {"reservedFor": users}
            )
            uid = made["metadata"]["uid"]
            await wait_until(lambda: claims.pods_of(uid) == (("p", "p-uid"),))
            assert [one.metadata.name for one in claims.having(gpu(1))] == ["a"]
            assert list(claims.having(gpu(2))) == []
            await api.change(RESOURCE_CLAIMS, "a", status=allocation({}) | {"reservedFor": []})
            await wait_until(lambda: claims.pods_of(uid) == ())


async def test_a_device_that_comes_later_is_the_claims_at_once(
    followed: tuple[Cluster, InventoryFeed], holds: Holds
) -> None:
    api, feed = followed
    await api.add(RESOURCE_CLAIMS, claim_document("a"), allocation({}, {"device": "gpu-9"}))
    await wait_until(lambda: who(holds) == {"gpu-1": "claim default/a"})
    feed.publish((*ALL.devices, gpu(9)))
    await wait_until(lambda: who(holds) == {"gpu-1": "claim default/a", "gpu-9": "claim default/a"})
    feed.publish(ALL.devices)
    await api.change(RESOURCE_CLAIMS, "a", metadata={"labels": {"a": "b"}})
    await api.add(RESOURCE_CLAIMS, claim_document("b"), allocation({"device": "gpu-2"}))
    await wait_until(lambda: "gpu-2" in who(holds))
    assert "gpu-9" in who(holds)  # it may come back


@pytest.mark.parametrize(
    "result",
    [{"driver": "other.example.com"}, {"pool": "node-2"}, {"adminAccess": True}],
    ids=["another driver", "another node", "an admin looks on"],
)
async def test_what_does_not_concern_us(
    followed: tuple[Cluster, InventoryFeed], holds: Holds, result: dict[str, Any]
) -> None:
    api, _ = followed
    await api.add(RESOURCE_CLAIMS, claim_document("a"), allocation(result, {"device": "gpu-2"}))
    await wait_until(lambda: who(holds) == {"gpu-2": "claim default/a"})


async def test_while_the_api_server_is_away_what_was_known_stays(
    followed: tuple[Cluster, InventoryFeed], holds: Holds
) -> None:
    api, feed = followed
    await api.add(RESOURCE_CLAIMS, claim_document("a"), allocation({}, {"device": "gpu-9"}))
    await wait_until(lambda: who(holds) == {"gpu-1": "claim default/a"})
    api.is_away = True
    await api.leave()
    await wait_until(lambda: api.turned_away >= 2)
    feed.publish([*ALL.devices, gpu(9)])
    await wait_until(lambda: who(holds) == {"gpu-1": "claim default/a", "gpu-9": "claim default/a"})


def test_a_claim_without_an_allocation_has_nothing() -> None:
    assert devices_of(ClaimPicture(), {}, ["gpu.dray.internal"], NODE) is None
