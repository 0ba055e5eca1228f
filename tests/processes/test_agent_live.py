"""The whole agent whose configuration and node are objects of an API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dray.agent.config.config_place import ConfigMapPlace, KubeVirtPlace
from dray.api.codec import load_values
from dray.testing.host import MdevType
from tests.processes.agent_server import NODE, NS, AgentServer, agent_server
from tests.processes.conftest import Node
from tests.processes.test_agent import MDEVS

GPU: dict[str, Any] = {
    "pciVendorSelector": "10DE:2330",
    "resourceName": "nvidia.com/GPU",
    "externalResourceProvider": True,
}
BOTH = {"5": "Healthy", "12": "Healthy"}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[AgentServer]:
    async with agent_server(tmp_path / "server") as found:
        await found.put_node(gpu="small")
        yield found


def permitted(*devices: dict[str, Any]) -> dict[str, Any]:
    return {"permittedHostDevices": {"pciHostDevices": list(devices)}}


async def test_what_kubevirt_leaves_to_others_is_served_and_goes_with_its_entry(
    node: Node, server: AgentServer
) -> None:
    await server.define()
    await server.put_kubevirt(permitted(GPU))
    node.options = replace(node.options, config=KubeVirtPlace(), access=server.access, node_name=NODE)
    async with node.kubelet.running():
        async with node.agent():
            await node.wait_list("nvidia.com/GPU", BOTH)
            assert set(node.kubelet.lists) == {"nvidia.com/GPU"}, "permanent devices are virt-handler's"
            await server.put_kubevirt(permitted())
            await node.wait_list("nvidia.com/GPU", {})
            await server.put_kubevirt(permitted(GPU))
            await node.wait_list("nvidia.com/GPU", BOTH)
            await server.put_kubevirt(permitted(GPU | {"externalResourceProvider": False}))
            await node.wait_list("nvidia.com/GPU", {})
            await server.put_kubevirt(permitted(GPU))
            await node.wait_list("nvidia.com/GPU", BOTH)
        await server.stop()
        node.kubelet.lists.clear()
        async with node.agent():
            await node.wait_list("nvidia.com/GPU", BOTH)
        await server.start()


async def test_another_label_on_the_node_switches_the_type_of_its_cards(
    node: Node, server: AgentServer
) -> None:
    owner = node.machine.host.pci(
        "0000:07:00.0", vendor="10de", device="1eb8", driver="nvidia", iommu_group=4
    )
    types = {"nvidia-300": MdevType(2, "GRID T4-1Q"), "nvidia-301": MdevType(1, "GRID T4-2Q")}
    card = node.machine.host.mdev_parent(owner, types)
    await server.define()
    await server.put_kubevirt(load_values(MDEVS)[0].value)
    await server.put_map("dray-agent", a="dray: {role: replace}")
    node.options = replace(
        node.options,
        config=KubeVirtPlace(NS, "kubevirt"),
        additions=ConfigMapPlace(NS, "dray-agent"),
        access=server.access,
        node_name=NODE,
    )
    with node.machine.host.active():
        async with node.kubelet.running(), node.agent():
            lists = node.kubelet.lists
            await node.wait(lambda: len(lists.get("nvidia.com/GRID_T4-1Q", [])) == 4, "2 made, 2 of another")
            await server.put_node(gpu="big")
            await node.wait_list("nvidia.com/GRID_T4-1Q", {"71": "Healthy", "72": "Healthy"})
            await node.wait(lambda: card.available("nvidia-301") == 0, "one of the other type")
