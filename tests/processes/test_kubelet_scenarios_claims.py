"""Pods with claims on a node whose parts fail, go and come: registration, preparing, giving back."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dray.api.kinds import EVENTS, PODS
from tests.processes.kubelet_claims import Moody, announced, driver_of, registered, run_with, wait_notified
from tests.processes.kubelet_node import Node, container, node_in


def state_is_empty(node: Node) -> bool:
    return '\\"ClaimInfoStateList\\":null' in (node.root / "kubelet/dra_manager_state").read_text()


def reasons(node: Node) -> set[str]:
    return {one["reason"] for (kind, _, _), one in node.server.objects.items() if kind == EVENTS.plural}


async def skipping(node: Node, driver: Moody, what: str) -> None:
    """Until the driver was asked once more, however long the pause before that is."""
    before = driver.tried.count(what)
    while driver.tried.count(what) == before:
        node.clock.skip(5)
        await asyncio.sleep(0.02)


async def test_registration_after_restarts_of_either(tmp_path: Path) -> None:
    async with node_in(tmp_path) as node:
        driver = driver_of(node)
        async with registered(node, driver):
            await node.stop()
            before = len(driver.notified)
            await node.start()
            await wait_notified(node, driver, before)
        async with registered(node, driver):
            await run_with(node, "p", {"c": ["a.io"]})


@pytest.mark.parametrize("what", ["info", "notify"])
async def test_registration_that_fails_is_tried_again(tmp_path: Path, what: str) -> None:
    async with node_in(tmp_path) as node:
        driver = driver_of(node)
        driver.broken = {what}
        async with driver.serving(), announced(node, driver):
            for _ in range(2):
                await skipping(node, driver, what)
            driver.broken = set()
            node.clock.skip(10)
            await wait_notified(node, driver)
            await run_with(node, "p", {"c": ["a.io"]})


async def test_a_pod_that_came_while_the_kubelet_was_down(tmp_path: Path) -> None:
    async with node_in(tmp_path) as node:
        driver = driver_of(node)
        async with registered(node, driver):
            await node.stop()
            await run_with(node, "p", {"c": ["a.io"]}, wait=False)
            await node.start()
            await node.phase("p", "Running")
            assert driver.calls == [("prepare", ("c",))]


async def test_a_driver_that_does_not_answer_keeps_the_pod_pending(tmp_path: Path) -> None:
    """And nobody else. The deadline of the call is tried in tests/kubelet/claims/test_prepare.py."""
    async with node_in(tmp_path) as node:
        driver = driver_of(node)
        driver.gate = asyncio.Event()
        async with registered(node, driver):
            await run_with(node, "p", {"c": ["a.io"]}, wait=False)
            await node.wait(lambda: driver.calls, "the call")
            await node.run("q", container())
            await node.phase("q", "Running")
            assert node.status("p")["phase"] == "Pending"
            driver.gate.set()
            await node.phase("p", "Running")


@pytest.mark.parametrize("restarted", [False, True], ids=["same-kubelet", "next-kubelet"])
async def test_calls_that_fail_and_then_succeed(tmp_path: Path, restarted: bool) -> None:
    async with node_in(tmp_path) as node:
        driver = driver_of(node)
        driver.broken = {"prepare", "unprepare"}
        async with registered(node, driver):
            await run_with(node, "p", {"c": ["a.io"]}, wait=False)
            for _ in range(2):
                await skipping(node, driver, "prepare")
            assert node.status("p")["phase"] == "Pending"
            assert "prepare is broken" in node.waits("p")
            await again(node, driver, "prepare", restarted=restarted)
            await node.phase("p", "Running")
            await node.server.mark_deleted("p")
            for _ in range(2):
                await skipping(node, driver, "unprepare")
            assert node.server.find(PODS, "p"), "gone before its claim was given back"
            assert driver.prepared
            await again(node, driver, "unprepare", restarted=restarted)
            await node.gone("p")
            assert (driver.prepared, state_is_empty(node)) == (set(), True)
            assert {"FailedPrepareDynamicResources"} <= reasons(node)


async def again(node: Node, driver: Moody, what: str, *, restarted: bool) -> None:
    """The call works now, for this kubelet or the next."""
    if restarted:
        await node.stop()
    driver.broken.discard(what)
    if restarted:
        await node.start()
    await skipping(node, driver, what)


@pytest.mark.parametrize("how", ["deleted", "forced", "forgotten"])
async def test_a_pod_deleted_while_the_kubelet_was_down_gives_back(tmp_path: Path, how: str) -> None:
    """Also where only the claims' own record is left of it."""
    async with node_in(tmp_path) as node:
        driver = driver_of(node)
        async with registered(node, driver):
            await run_with(node, "p", {"c": ["a.io"]})
            await node.stop()
            await (node.server.mark_deleted("p") if how == "deleted" else node.server.delete(PODS, "p"))
            if how == "forgotten":
                shutil.rmtree(node.root / "state/records")
            await node.start()
            await node.wait_later(lambda: not driver.prepared, "the claim given back")
            await node.gone("p")
            await node.wait(lambda: state_is_empty(node) and not node.processes(), "nothing left")
            assert driver.calls == [("prepare", ("c",)), ("unprepare", ("c",))]


async def test_a_deleted_pod_is_not_prepared(tmp_path: Path) -> None:
    async with node_in(tmp_path) as node:
        driver = driver_of(node)
        driver.broken = {"prepare"}
        async with registered(node, driver):
            await run_with(node, "p", {"c": ["a.io"]}, wait=False)
            await skipping(node, driver, "prepare")
            await node.stop()
            await node.server.delete(PODS, "p")
            driver.broken, driver.tried = set(), []
            before = len(driver.notified)
            await node.start()
            await wait_notified(node, driver, before)
            await node.run_and_end("q")
            node.clock.skip(120)
            await node.run_and_end("r")
            assert "prepare" not in driver.tried
            await node.wait(lambda: state_is_empty(node), "nothing left")


@asynccontextmanager
async def pair_in(root: Path) -> AsyncIterator[tuple[Node, Moody, Moody]]:
    async with node_in(root) as node:
        first, second = driver_of(node, "a.io"), driver_of(node, "b.io")
        async with registered(node, first, second):
            yield node, first, second


CLAIMS = {"of-a": ["a.io"], "of-b": ["b.io"], "of-both": ["a.io", "b.io"]}


async def test_two_drivers_prepare_and_are_counted(tmp_path: Path) -> None:
    async with pair_in(tmp_path) as (node, *drivers):
        await run_with(node, "p", CLAIMS)
        assert [driver.calls for driver in drivers] == [
            [("prepare", ("of-a", "of-both"))],
            [("prepare", ("of-b", "of-both"))],
        ]
        for name, count in (("a.io", 2), ("b.io", 2), ("<any>", 3)):
            assert await node.metric("dra_resource_claims_in_use", driver_name=name) == count
        await node.server.mark_deleted("p")
        await node.gone("p")
        assert [driver.prepared for driver in drivers] == [set(), set()]
        assert await node.metric("dra_resource_claims_in_use", driver_name="<any>") == 0
        for driver in ("a.io", "b.io"):
            for method in ("NodePrepareResources", "NodeUnprepareResources"):
                path = f"/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/{method}"
                labels = {"driver_name": driver, "method_name": path, "grpc_status_code": "OK"}
                assert await node.metric("dra_grpc_operations_duration_seconds_count", **labels) == 1
        for name in ("PrepareResources", "UnprepareResources"):
            labels = {"operation_name": name, "is_error": "false"}
            assert await node.metric("dra_operations_duration_seconds_count", **labels) >= 1


async def test_one_of_two_drivers_fails_and_then_succeeds(tmp_path: Path) -> None:
    async with pair_in(tmp_path) as (node, good, bad):
        bad.broken = {"prepare", "unprepare"}
        await run_with(node, "p", CLAIMS, wait=False)
        for _ in range(2):
            await skipping(node, bad, "prepare")
        assert node.status("p")["phase"] == "Pending"
        bad.broken.remove("prepare")
        await skipping(node, bad, "prepare")
        await node.phase("p", "Running")
        await node.server.mark_deleted("p")
        for _ in range(2):
            await skipping(node, bad, "unprepare")
        assert node.server.find(PODS, "p")
        await node.wait(lambda: not good.prepared, "the other driver's devices given back meanwhile")
        bad.broken.remove("unprepare")
        await skipping(node, bad, "unprepare")
        await node.gone("p")
        assert not bad.prepared


async def wait_asked(node: Node, driver: Moody, word: str, before: int = 0) -> None:
    await node.wait(
        lambda: len(driver.calls) > before and driver.calls[-1][0] == word, f"{word} at {driver.name}"
    )


async def test_a_call_to_one_driver_is_under_way_when_the_kubelet_stops(tmp_path: Path) -> None:
    async with pair_in(tmp_path) as (node, _, slow):
        for word in ("prepare", "unprepare"):
            slow.gate = asyncio.Event()
            if word == "prepare":
                await run_with(node, "p", CLAIMS, wait=False)
            else:
                await node.server.mark_deleted("p")
            await wait_asked(node, slow, word)
            calls = len(slow.calls)
            await node.stop()
            slow.gate = None
            await node.start()
            await wait_asked(node, slow, word, calls)
            assert slow.calls[-1] == slow.calls[calls - 1]
            await (node.phase("p", "Running") if word == "prepare" else node.gone("p"))
        assert not slow.prepared
