from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from dray.agent.cluster import (
    AgentCluster,
    ClusterSide,
    agent_cluster,
    find_server,
    parse_node_name,
)
from dray.agent.config import Served
from dray.agent.config.additions import DEFAULT_DOMAIN
from dray.agent.config.config_place import ConfigMapPlace, KubeVirtPlace, Place
from dray.api.kinds import NODES
from dray.dra.names import driver_name
from dray.errors import InvalidError
from dray.runtime.clock import SystemClock
from dray.runtime.tasks import running
from tests.processes.agent_server import NODE, AgentServer, agent_server
from tests.waiting import wait_until

MDEVS = {
    "mediatedDevicesConfiguration": {
        "nodeMediatedDeviceTypes": [
            {"nodeSelector": {"gpu": "a"}, "mediatedDeviceTypes": ["nvidia-2"]},
            {"nodeSelector": {"gpu": "b"}, "mediatedDeviceTypes": ["nvidia-3"]},
        ]
    }
}


class Agent:
    """What a node agent would serve."""

    def __init__(self, cluster: AgentCluster) -> None:
        self.cluster, self.served = cluster, Served()

    async def run(self) -> None:
        self.served = self.cluster.config.load()
        async for served in self.cluster.config.follow(SystemClock(), self.served):
            self.served = served


@asynccontextmanager
async def agent(side: ClusterSide) -> AsyncIterator[Agent]:
    async with agent_cluster(side, SystemClock()) as cluster:
        found = Agent(cluster)
        async with running(found.run(), name="agent"):
            yield found


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[AgentServer]:
    async with agent_server(tmp_path / "server") as found:
        yield found


def side(server: AgentServer, tmp_path: Path, config: Place | None = None) -> ClusterSide:
    return ClusterSide(config or KubeVirtPlace(), NODE, tmp_path / "state", server.access)


async def test_a_kubevirt_object_and_the_nodes_labels(server: AgentServer, tmp_path: Path) -> None:
    await server.define()
    await server.put_node(gpu="a")
    await server.put_kubevirt(MDEVS)
    await server.put_map("dray-agent", x="dray: {role: replace}")
    ours = replace(side(server, tmp_path), additions=ConfigMapPlace("default", "dray-agent"))
    async with agent(ours) as found:
        await wait_until(lambda: found.served.mdev_types.desired == ("nvidia-2",), "the type of the label")
        await server.put_node(gpu="b")
        await wait_until(
            lambda: found.served.mdev_types.desired == ("nvidia-3",), "the type of the other label"
        )
    async with agent(replace(ours, node_labels={"gpu": "a"})) as found:
        await wait_until(
            lambda: found.served.mdev_types.desired == ("nvidia-2",), "a flag goes before the Node"
        )


async def test_beside_kubevirt_labels_and_mdevs_are_kubevirts(server: AgentServer, tmp_path: Path) -> None:
    await server.define()
    await server.put_node(gpu="a")
    external = {"mdevNameSelector": "GRID T4-1Q", "resourceName": "nvidia.com/T4", "externalResourceProvider": True}  # fmt: skip
    usb = {"resourceName": "example.com/key", "selectors": [{"vendor": "46f4", "product": "0001"}]}
    permitted = {"mediatedDevices": [external], "usb": [usb | {"externalResourceProvider": True}]}
    await server.put_kubevirt(MDEVS | {"permittedHostDevices": permitted})
    async with agent(side(server, tmp_path)) as found:
        await wait_until(lambda: found.served.resources == ("example.com/key",), "what is left to others")
        assert not found.served.mdev_types.managed and found.served.mdevs == ()
        await server.put_kubevirt(MDEVS | {"permittedHostDevices": {"usb": [usb]}})
        await wait_until(lambda: found.served == Served(), "KubeVirt serves it itself now")
        await server.put_kubevirt(MDEVS | {"permittedHostDevices": None})
        await wait_until(lambda: found.cluster.config.loads == 3, "nothing is permitted any more")
        assert found.served == Served()


async def test_a_bad_edit_is_told_on_the_object_and_on_the_node(server: AgentServer, tmp_path: Path) -> None:
    await server.define()
    await server.put_node()
    uid = (await server.client.get(NODES, NODE)).metadata.uid
    await server.put_kubevirt({})
    async with agent(side(server, tmp_path)) as found:
        await wait_until(lambda: found.cluster.config.loads == 1, "the object")
        await server.put_kubevirt({"virtualMachineInstancesPerNode": -1})
        await wait_until(lambda: found.cluster.config.refusals == 1, "the refusal")
    on_object, on_node = await server.events("ConfigRejected")
    field = "spec.configuration.virtualMachineInstancesPerNode"
    assert on_object.involved_object.kind == "KubeVirt" and on_node.involved_object.uid == uid
    assert on_object.message.startswith(f"node {NODE}: kubevirt:default/kubevirt: {field}: ")
    assert on_node.message.startswith(f"configuration refused: kubevirt:default/kubevirt: {field}: ")
    assert (on_node.type, on_node.source.component, on_node.source.host) == ("Warning", "dray-agent", NODE)


async def test_a_bad_one_at_the_start_is_told_before_the_end(server: AgentServer, tmp_path: Path) -> None:
    await server.put_node()
    (tmp_path / "agent.yaml").write_text("dray: {unit: x}\n")
    with pytest.raises(InvalidError):
        async with agent(side(server, tmp_path, tmp_path / "agent.yaml")):
            await asyncio.sleep(60)
    (told,) = await server.events("ConfigRejected")
    assert told.involved_object.kind == "Node" and "agent.yaml:1: dray.unit" in told.message


async def test_without_an_api_server_a_file_is_served(tmp_path: Path) -> None:
    (tmp_path / "agent.yaml").write_text("virtualMachineInstancesPerNode: 3\n")
    alone = ClusterSide(tmp_path / "agent.yaml", NODE, tmp_path / "state")
    async with agent(alone) as found:
        await wait_until(lambda: found.served.generic[:1] != (), "the file")
        assert (found.cluster.client, found.cluster.node) == (None, None)
        found.cluster.events.config_rejected(InvalidError("nobody hears it"), ())
    assert not (tmp_path / "state").exists()
    for wrong in (replace(alone, config=KubeVirtPlace()), replace(alone, additions=Path("x"))):
        with pytest.raises(InvalidError, match=r"^--(config|additions): "):
            async with agent_cluster(wrong, SystemClock()):
                pytest.fail("nothing to serve")


def test_which_api_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert find_server(None) is None
    assert find_server(Path("none")) is None
    with pytest.raises(InvalidError, match="missing"):
        find_server(tmp_path / "missing")


def test_node_names() -> None:
    assert parse_node_name("node-1.example") == "node-1.example"
    assert parse_node_name("") == socket.gethostname().lower()
    with pytest.raises(InvalidError, match="--node-name: 'Node_1'"):
        parse_node_name("Node_1")


def test_a_host_without_a_name_is_fine_until_a_node_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "(none)")
    assert parse_node_name("") == ""


def test_the_rights_name_the_drivers_of_all_kinds() -> None:
    page = Path("docs/reference/agent.md").read_text()
    (listed,) = re.findall(r"resourceNames: \[(gpu\.nvidia\.com[^\]]*)\]", page)
    kinds = [path.parent.name for path in Path("src/dray/drivers").glob("*/discover.py")]
    wanted = {driver_name(kind, DEFAULT_DOMAIN) for kind in (*kinds, "nvidia")}
    assert set(re.split(r",\s*", listed)) == wanted
