"""A container's devices after this process started anew, and before each start of the container."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dray.api.core import Pod
from dray.cdi.edits import ContainerEdits
from dray.errors import Error, NotFoundError, UnavailableError
from dray.kubelet.pods.contract import RunOptions
from tests.kubelet.devices.small_node import (
    RESOURCE,
    SmallNode,
    SmallPlugin,
    container,
    devices,
    pod_of,
    simple,
)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[SmallNode]:
    found = SmallNode(tmp_path)
    yield found
    found.manager.close()


async def refused(node: SmallNode, pod: Pod) -> str:
    with pytest.raises(Error) as caught:
        await node.admit(pod)
    return str(caught.value)


class TestRestart:
    """A new process: pods are admitted again, plugins come back when they like."""

    async def test_what_runs_goes_on_without_its_plugin(self, node: SmallNode) -> None:
        node.plug(RESOURCE, devices("d1"))
        pod = simple("pod", res1=1)
        await node.admit(pod)
        node.restart()
        node.is_ready = False
        text = f"no healthy devices present; cannot allocate unhealthy devices {RESOURCE}"
        assert await refused(node, pod) == text
        node.running = {("pod", "c")}
        await node.admit(pod)
        node.is_ready = True
        assert await refused(node, pod) == text
        assert node.ids(pod) == {"d1"}
        plugin = node.plug(RESOURCE, devices("d1", "d2"))
        await node.admit(pod)
        assert plugin.calls == []
        assert node.in_use() == {"d1"}

    async def test_a_finished_init_container_does_not_end_a_running_pod(self, node: SmallNode) -> None:
        node.plug(RESOURCE, devices("d1"))
        pod = pod_of("pod", container("c", res1=1), init=[container("i", res1=1)])
        await node.admit(pod)
        node.restart()
        node.is_ready = False
        node.running = {("pod", "c")}
        await node.admit(pod)
        node.running = set()
        assert "no healthy devices" in await refused(node, pod)

    async def test_a_container_that_is_down_is_not_saved_by_another(self, node: SmallNode) -> None:
        node.plug(RESOURCE, devices("d1", "d2"))
        pod = pod_of("pod", container("c1", res1=1), container("c2", res1=1))
        await node.admit(pod)
        node.restart()
        node.is_ready = False
        node.running = {("pod", "c1")}
        assert "no healthy devices" in await refused(node, pod)

    async def test_after_a_reboot_the_plugin_is_needed(self, node: SmallNode) -> None:
        node.plug(RESOURCE, devices("d1", "d2"))
        pod = simple("pod", res1=1)
        await node.admit(pod)
        node.restart()
        await node.clock.advance(301)
        assert node.manager.capacity().deleted == (RESOURCE,)
        assert await refused(node, pod) == f"cannot allocate unregistered device {RESOURCE}"
        node.plug(RESOURCE, devices("d1", "d2"))
        await node.admit(pod)
        assert node.ids(pod) == {"d1"}


class TestRunOptions:
    """Before each start of a container."""

    async def test_pre_start_is_called_for_every_start(self, node: SmallNode) -> None:
        plugin = SmallPlugin(pre_start=True)
        node.plug(RESOURCE, devices("d2", "d1"), plugin)
        pod = simple("pod", res1=2, res2=0)
        await node.admit(pod)
        for _ in range(2):
            options = await node.manager.run_options(pod, pod.spec.containers[0])
            assert options.edits == ContainerEdits(env=(("IDS", "d1,d2"),))
        assert [call for call, _ in plugin.calls] == ["allocate", "pre_start", "pre_start"]
        assert plugin.calls[-1] == ("pre_start", ("d1", "d2"))

    async def test_none_is_called_for_a_request_of_nothing(self, node: SmallNode) -> None:
        plugin = SmallPlugin(pre_start=True)
        node.plug(RESOURCE, devices("d1"), plugin)
        pod = simple("pod", res1=0)
        await node.admit(pod)
        await node.manager.run_options(pod, pod.spec.containers[0])
        assert plugin.calls == []

    async def test_a_failing_pre_start(self, node: SmallNode) -> None:
        plugin = SmallPlugin(pre_start=True)
        node.plug(RESOURCE, devices("d1"), plugin)
        pod = simple("pod", res1=1)
        await node.admit(pod)

        async def fail(call: str) -> None:
            raise UnavailableError("too slow")

        plugin.before = fail
        text = "device plugin PreStartContainer rpc failed with err: "
        with pytest.raises(UnavailableError) as caught:
            await node.manager.run_options(pod, pod.spec.containers[0])
        assert str(caught.value) == f"{text}too slow"
        node.manager.disconnected(RESOURCE, plugin)
        with pytest.raises(UnavailableError) as caught:
            await node.manager.run_options(pod, pod.spec.containers[0])
        assert str(caught.value) == f"{text}endpoint {RESOURCE} has been stopped"
        assert node.ids(pod) == {"d1"}

    async def test_a_plugin_gone_for_good(self, node: SmallNode) -> None:
        plugin = node.plug(RESOURCE, devices("d1"))
        pod = simple("pod", res1=1)
        await node.admit(pod)
        node.manager.disconnected(RESOURCE, plugin)
        assert (await node.manager.run_options(pod, pod.spec.containers[0])).edits.env
        await node.clock.advance(301)
        node.manager.capacity()
        with pytest.raises(NotFoundError) as caught:
            await node.manager.run_options(pod, pod.spec.containers[0])
        assert str(caught.value) == f"endpoint not found in cache for a registered resource: {RESOURCE}"

    async def test_after_a_restart_the_saved_answer_counts(self, node: SmallNode) -> None:
        node.plug(RESOURCE, devices("d1"), SmallPlugin(pre_start=True))
        pod = simple("pod", res1=1)
        await node.admit(pod)
        node.restart()
        options = await node.manager.run_options(pod, pod.spec.containers[0])
        assert options.edits.env == (("IDS", "d1"),)

    async def test_a_lost_grant_is_made_anew(self, node: SmallNode) -> None:
        plugin = SmallPlugin(pre_start=True)
        node.plug(RESOURCE, devices("d1"), plugin)
        pod = simple("pod", res1=1)
        node.active = {"pod"}
        options = await node.manager.run_options(pod, pod.spec.containers[0])
        assert options.edits.env == (("IDS", "d1"),)
        assert [call for call, _ in plugin.calls] == ["allocate", "pre_start"]

    async def test_a_pod_that_is_over_gets_nothing(self, node: SmallNode) -> None:
        plugin = node.plug(RESOURCE, devices("d1"))
        pod = simple("pod", res1=1)
        await node.admit(pod)
        node.active = set()
        node.manager.forget_inactive()
        assert await node.manager.run_options(pod, pod.spec.containers[0]) == RunOptions()
        assert len(plugin.calls) == 1
        plugin.options.pre_start_required = True
        with pytest.raises(NotFoundError) as caught:
            await node.manager.run_options(pod, pod.spec.containers[0])
        text = f"no devices found allocated in local cache for pod pod, container c, resource {RESOURCE}"
        assert str(caught.value) == text
