"""A DRA driver's connection, its slices, and the health of its devices in the status of pods."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from dray.api.kinds import RESOURCE_SLICES
from tests.kubelet.claims.world import NODE as POOL
from tests.kubelet.claims.world import told
from tests.processes.kubelet_claims import (
    Counter,
    Moody,
    announced,
    driver_of,
    registered,
    run_with,
    wait_notified,
)
from tests.processes.kubelet_node import NODE, Node, node_in

HEALTH_PAUSE, WIPE = 6, 31


async def add_slice(node: Node, name: str, driver: str = "a.io", on: str = NODE) -> None:
    pool = {"name": on, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": on, "pool": pool, "devices": [{"name": "d"}]}
    await node.server.add(RESOURCE_SLICES, {"metadata": {"name": name}, "spec": spec})


async def wait_streams(node: Node, driver: Moody, count: int) -> None:
    await node.wait_later(lambda: driver.streams >= count, "the connection")


async def test_one_connection_for_all_calls_and_the_health_stream(tmp_path: Path) -> None:
    async with node_in(tmp_path) as node:
        driver = driver_of(node)
        counter = Counter(node.root / "front.sock", driver.path)
        async with driver.serving(), counter.serving():
            driver.path = counter.path
            async with announced(node, driver):
                await wait_notified(node, driver)
                await node.wait(lambda: driver.streams, "the health stream")
                for name in ("p", "q"):
                    await run_with(node, name, {f"of-{name}": ["a.io"]})
                    node.clock.skip(3600)  # an idle connection is kept
                for name in ("p", "q"):
                    await node.server.mark_deleted(name)
                    await node.gone(name)
                assert [word for word, _ in driver.calls] == ["prepare", "prepare", "unprepare", "unprepare"]
                assert (counter.connections, driver.streams) == (1, 1)


async def test_slices_go_at_the_start_of_the_kubelet(tmp_path: Path) -> None:
    async with node_in(tmp_path) as node:
        await node.stop()
        await add_slice(node, "mine")
        await add_slice(node, "other-driver", "b.io")
        await add_slice(node, "elsewhere", on="another")
        await node.start()
        await node.wait(lambda: node.server.slices() == ["elsewhere"], "the slices of this node to go")


async def test_slices_go_some_time_after_the_driver_unregistered(tmp_path: Path) -> None:
    async with node_in(tmp_path) as node:
        driver, other = driver_of(node), driver_of(node, "b.io")
        async with registered(node, other):
            async with registered(node, driver):
                for name in ("a.io", "b.io"):
                    await add_slice(node, name, name)
            path = str(node.registry / "a.io.sock")
            while await node.metric("plugin_manager_total_plugins", socket_path=path):
                await asyncio.sleep(0.01)
            node.clock.skip(WIPE - 10)
            await node.run_and_end("q")
            assert node.server.slices() == ["a.io", "b.io"]
            node.clock.skip(20)
            await node.wait(lambda: node.server.slices() == ["b.io"], "its slices to go, and no others")


async def test_slices_go_where_the_service_is_gone_though_its_socket_announces_it(tmp_path: Path) -> None:
    async with node_in(tmp_path) as node:
        driver = driver_of(node)
        async with AsyncExitStack() as service, announced(node, driver):
            await service.enter_async_context(driver.serving())
            await wait_notified(node, driver)
            await node.wait(lambda: driver.streams, "the connection")
            await add_slice(node, "a.io")
            await service.aclose()
            await node.wait_later(lambda: not node.server.slices(), "its slices to go")


async def test_slices_stay_where_the_service_is_back_soon(tmp_path: Path) -> None:
    async with node_in(tmp_path) as node:
        driver = driver_of(node)
        async with AsyncExitStack() as service, announced(node, driver):
            for number in (1, 2):
                await service.enter_async_context(driver.serving())
                await wait_streams(node, driver, number)
                if number == 1:
                    await add_slice(node, "a.io")
                    await service.aclose()
                    node.clock.skip(2)
            await wait_notified(node, driver)
            node.clock.skip(10 * WIPE)
            await node.run_and_end("q")
            assert node.server.slices() == ["a.io"]


def health(node: Node, pod: str) -> list[tuple[str, str]]:
    """What a pod's status says of its claims' devices."""
    (one,) = node.status(pod).get("containerStatuses") or [{}]
    return [
        (entry["name"], each["health"])
        for entry in one.get("allocatedResourcesStatus", ())
        for each in entry["resources"]
    ]


async def wait_health(node: Node, word: str, pod: str = "p", claim: str = "c") -> None:
    await node.wait_later(lambda: health(node, pod) == [(f"claim:{claim}", word)], f"{pod} {word}")


async def test_health_reaches_the_pod_and_is_unknown_while_the_driver_is_away(tmp_path: Path) -> None:
    async with node_in(tmp_path) as node:
        driver = driver_of(node)
        async with registered(node, driver):
            await run_with(node, "p", {"c": ["a.io"]})
            await wait_health(node, "Unknown")
            for word in ("HEALTHY", "UNHEALTHY", "HEALTHY"):
                driver.messages.put_nowait([told("dev-c", word, timeout=10**6)])
                await wait_health(node, word.capitalize())
        await wait_health(node, "Unknown")
        async with registered(node, driver):
            driver.messages.put_nowait([told("dev-c", "HEALTHY", timeout=10**6)])
            await wait_health(node, "Healthy")
            assert len(node.processes()) == 1


async def test_calls_and_health_come_back_after_the_connection_broke(tmp_path: Path) -> None:
    """The registration socket stays: nobody registers again."""
    async with node_in(tmp_path) as node:
        driver = driver_of(node)
        async with AsyncExitStack() as service, announced(node, driver):
            await service.enter_async_context(driver.serving())
            await wait_notified(node, driver)
            await run_with(node, "p", {"c": ["a.io"]})
            driver.messages.put_nowait([told("dev-c", timeout=10**6)])
            await wait_health(node, "Healthy")
            await service.aclose()
            await wait_health(node, "Unknown")
            await service.enter_async_context(driver.serving())
            driver.messages.put_nowait([told("dev-c", "UNHEALTHY", timeout=10**6)])
            await wait_health(node, "Unhealthy")
            await run_with(node, "q", {"d": ["a.io"]})
            assert len(driver.notified) == 1


async def test_many_pods_come_and_go_while_health_is_told(tmp_path: Path) -> None:
    async with node_in(tmp_path) as node:
        driver = driver_of(node)
        async with registered(node, driver):
            names = [f"p{number}" for number in range(6)]
            for number, name in enumerate(names):
                await run_with(node, name, {f"c{number}": ["a.io"]}, wait=False)
                driver.messages.put_nowait([told(f"dev-c{other}") for other in range(6)])
            for name in names:
                await node.phase(name, "Running")
            words = ["UNHEALTHY" if number % 2 else "HEALTHY" for number in range(6)]
            driver.messages.put_nowait(
                [told(f"dev-c{number}", word, timeout=10**6) for number, word in enumerate(words)]
            )
            for number, (name, word) in enumerate(zip(names, words, strict=True)):
                await wait_health(node, word.capitalize(), name, f"c{number}")
            for name in names:
                await node.server.mark_deleted(name)
            for name in names:
                await node.gone(name)
            assert (driver.prepared, driver.streams) == (set(), 1)


async def test_a_driver_that_tells_no_health(tmp_path: Path) -> None:
    """There is no gate here: where nothing tells health, it is unknown and no stream is tried."""
    async with node_in(tmp_path) as node:
        driver = driver_of(node)
        driver.versions = ["v1.DRAPlugin"]
        async with registered(node, driver):
            await run_with(node, "p", {"c": ["a.io"]})
            node.clock.skip(10 * HEALTH_PAUSE)
            await node.run_and_end("q")
            assert (health(node, "p"), driver.streams) == ([("claim:c", "Unknown")], 0)


async def test_share_ids_in_pod_resources_and_health(tmp_path: Path) -> None:
    share = "6cc8ee56-9a3f-4be6-9bb2-8c4e0c4b9c31"
    async with node_in(tmp_path) as node:
        driver = driver_of(node)
        driver.share_id = share
        async with registered(node, driver):
            await run_with(node, "p", {"c": ["a.io"]}, shareID=share)
            driver.messages.put_nowait([told("dev-c", "UNHEALTHY", timeout=10**6)])
            await wait_health(node, "Unhealthy")
            for _ in range(2):
                (container,) = (await node.listed())["p"].containers
                (claim,) = container.dynamic_resources
                (device,) = claim.claim_resources
                assert (claim.claim_name, device.driver_name, device.share_id) == ("c", "a.io", share)
                assert (device.pool_name, device.device_name) == (POOL, "dev-c")
                await node.restart()
            assert (await node.listed())["p"].containers[0].dynamic_resources[0] == claim


async def test_a_service_that_listens_after_its_registration(tmp_path: Path) -> None:
    async with node_in(tmp_path) as node:
        driver = driver_of(node)
        async with announced(node, driver):
            await wait_notified(node, driver)
            async with driver.serving():
                await run_with(node, "p", {"c": ["a.io"]})
