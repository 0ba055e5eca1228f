"""Which device a container has stays what it was: across restarts of the pod, the kubelet, the plugin and all of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from dray.api.kinds import PODS
from dray.errors import Error
from dray.wire.status import Code, status_of
from tests.kubelet.plugins.real_plugin import devices
from tests.processes.kubelet_node import TAPE, Tapes, container, node_in

RESTARTS = {
    "pod": ("pod",),
    "kubelet": ("kubelet",),
    "pod-and-kubelet": ("pod", "kubelet"),
    "plugin": ("plugin", "pod"),
    "kubelet-and-plugin": ("kubelet", "plugin"),
}


@pytest.mark.parametrize("what", RESTARTS.values(), ids=RESTARTS)
async def test_assignments_are_kept(tmp_path: Path, what: Sequence[str]) -> None:
    """Two pods, so that a mix-up would show."""
    async with node_in(tmp_path) as node, AsyncExitStack() as stack:
        plugins = [await stack.enter_async_context(AsyncExitStack())]

        async def plug(number: int) -> None:
            """Another instance; a kubelet that starts has removed the socket of the one before."""
            plugin = Tapes(first=devices("a", "b", "c", "d"))
            await plugins[-1].enter_async_context(node.plugged(plugin, f"tape-{number}.sock"))
            await node.wait_counts("4/4")

        await plug(0)
        for name, count in (("one", 1), ("two", 2)):
            await node.run(name, container(tapes=count))
            await node.phase(name, "Running")
        before = {name: await node.held(name) for name in ("one", "two")}
        assert [len(each["main"]) for each in before.values()] == [1, 2]
        for number, part in enumerate(what, 1):
            if part == "pod":
                counts = {name: node.restarts(name) for name in before}
                node.kill_containers()
                for name in before:
                    await node.wait_restarted(name, counts[name])
                    await node.phase(name, "Running")
            elif part == "kubelet":
                pids = node.processes()
                await node.restart()
                assert {name: await node.held(name) for name in before} == before, "without its plugin"
                await plug(number)
                assert node.processes() == pids
            else:
                await plugins.pop().aclose()
                await node.wait_counts("0/4")
                plugins.append(await stack.enter_async_context(AsyncExitStack()))
                await plug(number)
        assert {name: await node.held(name) for name in before} == before
        for name, held in before.items():
            tapes = ",".join(held["main"])
            assert await node.first_line(name, attempt=node.restarts(name)) == f"tapes={tapes}"
        await node.run("rest", container(tapes=1))
        await node.phase("rest", "Running")
        rest = (await node.held("rest"))["main"]
        assert not {*rest} & {one for each in before.values() for one in each["main"]}


async def test_a_succeeded_pod_is_not_admitted_again(tmp_path: Path) -> None:
    async with node_in(tmp_path) as node:
        async with node.plugged(Tapes()):
            await node.run("p", container(tapes=1, script="exit 0"), restartPolicy="Never")
            before = await node.phase("p", "Succeeded")
        await node.restart()
        await node.run("q", container())
        await node.phase("q", "Running")  # all pods were looked at
        assert node.status("p") == before
        assert "p" not in await node.listed()


async def test_pods_deleted_while_the_kubelet_was_down_are_cleaned_up(tmp_path: Path) -> None:
    async with node_in(tmp_path) as node:
        async with node.plugged(Tapes()):
            for name in ("asked", "forced"):
                await node.run(name, container(tapes=1))
                await node.phase(name, "Running")
        await node.stop()
        await node.server.mark_deleted("asked")
        await node.server.delete(PODS, "forced")
        assert len(node.processes()) == 2
        await node.start()
        await node.gone("asked")
        await node.wait(lambda: not node.processes(), "no process left")
        await node.wait(lambda: not list((node.root / "state/records").glob("*")), "no record left")
        assert await node.listed() == {}
        async with node.plugged(Tapes()):
            await node.run("both", container(tapes=2))
            await node.phase("both", "Running")
            assert await node.held("both") == {"main": ["a", "b"]}


async def test_a_sidecar_keeps_its_own_and_an_init_container_hands_on(tmp_path: Path) -> None:
    async with node_in(tmp_path) as node, node.plugged(Tapes(first=devices("a", "b", "c"))) as plugin:
        await node.run(
            "p",
            container("main", tapes=1),
            inits=[
                container("plain", tapes=1, script="exit 0"),
                container("side", tapes=1, restartPolicy="Always"),
                container("last", tapes=1, script="exit 0"),
            ],
        )
        await node.phase("p", "Running")
        held = await node.held("p")
        assert sorted(held) == ["main", "side"]
        assert held["main"] != held["side"]
        lines = {name: await node.first_line("p", name) for name in ("plain", "side", "last", "main")}
        assert lines["plain"] == lines["side"] == f"tapes={held['side'][0]}"
        assert lines["last"] == lines["main"] == f"tapes={held['main'][0]}"
        await node.run("q", container(tapes=1))
        await node.phase("q", "Running")
        assert len(plugin.calls) == 2 + 4 + 1, plugin.calls


async def test_a_reboot_with_the_plugin_away_ends_in_a_refusal(tmp_path: Path) -> None:
    """Five minutes later than a kubelet would: a plugin that is back in time saves the pod."""
    async with node_in(tmp_path) as node:
        async with node.plugged(Tapes()):
            await node.run("p", container(tapes=1))
            await node.phase("p", "Running")
            assert await node.held("p") == {"main": ["a"]}
        await node.stop()
        await node.reboot()
        await node.start()
        why = f"no healthy devices present; cannot allocate unhealthy devices {TAPE}"
        await node.wait(lambda: why in node.waits("p"), "the pod to wait")
        node.clock.skip(301)
        status = await node.phase("p", "Failed")
        assert status["reason"] == "UnexpectedAdmissionError"
        # By now the node may have given the resource up.
        whys = (why, f"cannot allocate unregistered device {TAPE}")
        assert status["message"] in {
            f"Pod was rejected: Allocate failed due to {each}, which is unexpected" for each in whys
        }
        assert "p" not in await node.listed()
        with pytest.raises(Error, match="pod p in namespace default not found") as caught:
            await node.get("p")
        told = status_of(caught.value)
        assert told is not None
        assert told.code is Code.UNKNOWN
        assert node.processes() == []


async def test_a_reboot_with_the_plugin_back_in_time_keeps_the_device(tmp_path: Path) -> None:
    async with node_in(tmp_path) as node:
        async with node.plugged(Tapes()):
            for name in ("p", "q"):
                await node.run(name, container(tapes=1))
                await node.phase(name, "Running")
            before = [await node.held(name) for name in ("p", "q")]
        await node.stop()
        await node.reboot()
        await node.start()
        for name in ("p", "q"):
            await node.wait_waits(name)
        async with node.plugged(Tapes(), "again.sock"):
            for name in ("p", "q"):
                await node.wait_started(name)
            assert [await node.held(name) for name in ("p", "q")] == before


async def test_before_the_plugin_is_back_the_running_stay_and_others_are_refused(tmp_path: Path) -> None:
    """A pod that ran here waits for the plugin; one that the node never took is refused as by a kubelet."""
    async with node_in(tmp_path) as node:
        async with node.plugged(Tapes()):
            await node.run("runs", container(tapes=1))
            await node.run("ended", container(tapes=1))
            for name in ("runs", "ended"):
                await node.phase(name, "Running")
        held, pids = await node.held("runs"), node.processes()
        await node.stop()
        node.kill_containers("ended")
        await node.wait(lambda: len(node.keepers()) == 1, "its end to be written down")
        await node.run("new", container(tapes=1))
        await node.start()
        status = await node.phase("new", "Failed")
        assert status["reason"] == "UnexpectedAdmissionError"
        assert f"cannot allocate unhealthy devices {TAPE}" in status["message"]
        await node.wait_waits("ended")
        assert node.status("runs")["phase"] == "Running"
        assert await node.held("runs") == held
        assert len(node.processes()) == 1
        assert node.processes()[0] in pids
        async with node.plugged(Tapes(), "again.sock"):
            await node.wait_restarted("ended")


async def test_two_instances_of_one_resource_and_either_stops(tmp_path: Path) -> None:
    """As in 1.37."""
    async with node_in(tmp_path) as node:
        for first in (0, 1):
            stacks = [AsyncExitStack(), AsyncExitStack()]
            for number, stack in enumerate(stacks):
                await stack.enter_async_context(node.plugged(Tapes(), f"tape-{first}{number}.sock"))
                await node.wait_counts("2/2")
            await stacks[first].aclose()
            await node.run(f"p{first}", container(tapes=1))
            await node.phase(f"p{first}", "Running")
            assert node.counts() == "2/2"
            await stacks[1 - first].aclose()
            await node.wait_counts("0/2")
