"""Device plugins that fail, in the ways a kubelet is tested for: what the Node says, and what a pod's status says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dray.api.kinds import EVENTS
from dray.errors import Error, HardwareError
from dray.runtime.quarantine import object_key
from dray.wire.deviceplugin import DevicePluginService
from dray.wire.gen.deviceplugin_v1beta1_pb2 import Empty, ListAndWatchResponse
from dray.wire.gen.pluginregistration_v1_pb2 import (
    InfoRequest,
    PluginInfo,
    RegistrationStatus,
    RegistrationStatusResponse,
)
from dray.wire.registration import RegistrationService
from dray.wire.serve import serve
from dray.wire.status import Code, status_of
from tests.deadly import make_deadly
from tests.kubelet.plugins.real_plugin import devices
from tests.processes.kubelet_node import TAPE, Node, Tapes, container, listing, node_in

GRACE = 300.0


class FailsToList(Tapes):
    """Its stream fails before the first list."""

    async def list_and_watch(self, request: Empty) -> AsyncIterator[ListAndWatchResponse]:
        self.calls.append("list")
        raise HardwareError("ListAndWatch failed")
        yield ListAndWatchResponse()


async def test_options_that_fail(tmp_path: Path) -> None:
    plugin = Tapes(fault=HardwareError("broken"))
    async with node_in(tmp_path) as node, plugin.serving(node.plugins / "p.sock"):
        with pytest.raises(Error) as caught:
            await node.register("p.sock")
        told = status_of(caught.value)
        assert told is not None
        assert told.code is Code.UNKNOWN
        assert told.message.startswith("failed to get device plugin options: ")
        assert told.message.endswith("broken")
        async with node.plugged(Tapes(), "other.sock", "example.com/other"):
            await node.wait_counts("2/2", "example.com/other")
        assert node.counts() == ""
        assert plugin.calls == ["options"]


async def test_one_device_falls_ill_and_recovers(tmp_path: Path) -> None:
    plugin = Tapes(first=devices("a"))
    async with node_in(tmp_path) as node, node.plugged(plugin):
        await node.wait_counts("1/1")
        plugin.lists.put_nowait(listing([], ["a"]))
        await node.wait_counts("0/1")
        plugin.lists.put_nowait(listing(["a"]))
        await node.wait_counts("1/1")


async def test_a_pod_keeps_running_on_a_device_that_fell_ill(tmp_path: Path) -> None:
    """Its status tells of the device; a pod that ended keeps the last word."""
    plugin = Tapes(first=devices("a"))
    async with node_in(tmp_path) as node, node.plugged(plugin):
        await node.run("p", container(tapes=1), restartPolicy="Never")
        await node.phase("p", "Running")
        await node.wait_counts("1/1")
        await node.wait(lambda: health(node, "p") == {"a": "Healthy"}, "a healthy device")
        plugin.lists.put_nowait(listing([], ["a"]))
        await node.wait_counts("0/1")
        await node.wait(lambda: health(node, "p") == {"a": "Unhealthy"}, "an unhealthy device")
        assert (node.status("p")["phase"], len(node.processes())) == ("Running", 1)
        node.kill_containers()
        await node.phase("p", "Failed")
        assert health(node, "p") == {"a": "Unhealthy"}
        plugin.lists.put_nowait(listing(["a"]))
        await node.wait_counts("1/1")
        assert health(node, "p") == {"a": "Unhealthy"}
        await node.server.mark_deleted("p")
        await node.gone("p")


async def test_a_deleted_pod_changes_nothing_for_an_ill_device(tmp_path: Path) -> None:
    plugin = Tapes(first=devices("a"))
    async with node_in(tmp_path) as node, node.plugged(plugin):
        await node.run("p", container(tapes=1))
        await node.phase("p", "Running")
        plugin.lists.put_nowait(listing([], ["a"]))
        await node.wait_counts("0/1")
        await node.server.mark_deleted("p")
        await node.gone("p")
        node.clock.skip(GRACE + 60)
        await node.run("q", container())
        await node.phase("q", "Running")
        assert node.counts() == "0/1"


def health(node: Node, pod: str) -> dict[str, str]:
    """What the pod's status says of its devices."""
    (one,) = node.status(pod)["containerStatuses"]
    return {
        each["resourceID"]: each["health"]
        for entry in one.get("allocatedResourcesStatus", ())
        for each in entry["resources"]
    }


async def test_allocatable_follows_health(tmp_path: Path) -> None:
    plugin = Tapes(first=devices("0", "1", "2", "3"))
    async with node_in(tmp_path) as node, node.plugged(plugin):
        await node.wait_counts("4/4")
        for healthy, wanted in (
            ("012", "3/4"),
            ("0123", "4/4"),
            ("02", "2/4"),
            ("023", "3/4"),
            ("0123", "4/4"),
        ):
            plugin.lists.put_nowait(listing([*healthy], sorted({*"0123"} - {*healthy})))
            await node.wait_counts(wanted)


async def test_a_list_that_fails_at_once_is_not_asked_for_again(tmp_path: Path) -> None:
    plugin = FailsToList()
    async with node_in(tmp_path) as node, node.plugged(plugin):
        await node.wait_counts("0/0")
        for _ in range(6):
            node.clock.skip(20)
            await node.run_and_end("idle")
        assert node.counts() == "0/0"
        assert plugin.calls == ["options", "list"]


async def test_a_list_that_fails_later_counts_until_the_grace_is_over(tmp_path: Path) -> None:
    plugin = Tapes()
    async with node_in(tmp_path) as node, node.plugged(plugin):
        await node.wait_counts("2/2")
        plugin.lists.put_nowait(HardwareError("ListAndWatch failed"))
        await node.wait_counts("0/2")
        node.clock.skip(GRACE - 60)
        await node.run_and_end("idle")
        assert node.counts() == "0/2"
        node.clock.skip(120)
        await node.wait_later(lambda: node.counts() == "0/0", "the resource to be given up")
        assert plugin.calls == ["options", "list"]


async def test_a_plugin_that_stops_leaves_nothing_to_give(tmp_path: Path) -> None:
    async with node_in(tmp_path) as node:
        async with node.plugged(Tapes()):
            await node.wait_counts("2/2")
        await node.wait_counts("0/2")
        node.clock.skip(GRACE + 60)
        await node.wait_later(lambda: node.counts() == "0/0", "the resource to be given up")


class Watched(FailsToList):
    """The same plugin, found in `plugins_registry`."""

    async def get_info(self, request: InfoRequest) -> PluginInfo:
        return PluginInfo(type="DevicePlugin", name=TAPE, supported_versions=["v1beta1"])

    async def wait_asked(self, node: Node, before: int) -> None:
        await node.wait(lambda: len(self.calls) >= before + 2, "options and list once more")

    async def notify_registration_status(self, request: RegistrationStatus) -> RegistrationStatusResponse:
        return RegistrationStatusResponse()


async def test_a_list_of_a_plugin_in_the_registry_is_asked_for_again(tmp_path: Path) -> None:
    """A kubelet gives up here too; ours tries again, with growing pauses."""
    plugin = Watched()
    async with node_in(tmp_path) as node:
        services = [RegistrationService(plugin), DevicePluginService(plugin)]
        async with serve(node.registry / "tape.sock", services):
            for _ in range(3):
                before = len(plugin.calls)
                node.clock.skip(130)
                await plugin.wait_asked(node, before)
        assert node.counts() == "0/0"


async def test_a_pod_that_ended_the_kubelet_three_times_is_left_alone(tmp_path: Path) -> None:
    async with node_in(tmp_path) as node:
        await node.stop()
        meta = (await node.run("deadly", container()))["metadata"]
        make_deadly(
            node.root / "state", object_key("pods", meta["namespace"], "deadly", meta["uid"]), node.clock
        )
        await node.start()
        await node.run_and_end("plain")

        def ready() -> dict[str, str]:
            found = node.status("deadly").get("conditions", ())
            return next((one for one in found if one["type"] == "Ready"), {})

        await node.wait(lambda: ready().get("reason") == "SetAside", "the pod's condition")
        assert ready()["status"] == "False"
        assert "Dray ended 3 times while it handled this object" in ready()["message"]
        assert node.processes("deadly") == []
        assert await node.metric("dray_objects_set_aside", part="kubelet") == 1
        told = [one for (kind, _, _), one in node.server.objects.items() if kind == EVENTS.plural]
        assert "SetAside" in [one["reason"] for one in told if one["involvedObject"]["name"] == "deadly"]
        await node.server.mark_deleted("deadly")
        await node.gone("deadly")
