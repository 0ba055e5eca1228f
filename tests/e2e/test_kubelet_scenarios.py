"""Scenarios of a kubelet that only real containers show: what a plugin answers is what the container sees."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from dray.processes.kubelet import RUNC, KubeletOptions
from dray.testing.kubernetes.tools import Tools
from dray.wire.gen.deviceplugin_v1beta1_pb2 import (
    AllocateResponse,
    CDIDevice,
    ContainerAllocateResponse,
    DeviceSpec,
    Mount,
)
from tests.e2e.busybox_root import make_root
from tests.kubelet.plugins.real_plugin import Plugin
from tests.processes.kubelet_node import Node, container, node_in

CDI = {
    "cdiVersion": "0.6.0",
    "kind": "example.com/tape",
    "devices": [
        {
            "name": "a",
            "containerEdits": {
                "env": ["CDI_COLOUR=blue"],
                "deviceNodes": [{"path": "/dev/cdi-tape", "hostPath": "/dev/zero"}],
            },
        }
    ],
}
SCRIPT = """
echo colour=$COLOUR cdi=$CDI_COLOUR
cat /library/index
(echo changed > /library/index) 2> /dev/null || echo sealed
head -c 3 /dev/tape | wc -c
head -c 4 /dev/cdi-tape | wc -c
exec sleep 1000
"""
SEEN = ["tapes=", "colour=red cdi=blue", "tape a", "sealed", "3", "4"]


@dataclass
class RealNode(Node):
    """The same node with containers of runc."""

    runc: Path = Path()

    def options(self) -> KubeletOptions:
        return replace(
            super().options(),
            runtime=RUNC,
            runc=self.runc,
            cdi_dirs=(self.root / "cdi",),
            image_dirs=(Path(tempfile.gettempdir()),),
        )


@pytest.fixture(scope="module")
def image(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"dir:{make_root(tmp_path_factory.mktemp('rootfs'), tools)}"


def answer(library: Path) -> AllocateResponse:
    one = ContainerAllocateResponse(
        envs={"COLOUR": "red"},
        mounts=[Mount(container_path="/library", host_path=str(library), read_only=True)],
        devices=[DeviceSpec(container_path="/dev/tape", host_path="/dev/zero", permissions="r")],
        annotations={"example.com/colour": "red"},
        cdi_devices=[CDIDevice(name="example.com/tape=a")],
    )
    return AllocateResponse(container_responses=[one])


async def test_what_a_plugin_answers_is_what_the_container_sees(
    tools: Tools, image: str, tmp_path: Path
) -> None:
    """At its first start, after a restart in place, and after a restart of the kubelet with the plugin gone."""
    library = tmp_path / "library"
    library.mkdir()
    (library / "index").write_text("tape a\n")
    (tmp_path / "cdi").mkdir()
    (tmp_path / "cdi/tape.json").write_text(json.dumps(CDI))
    async with node_in(tmp_path, RealNode(tmp_path, runc=tools.path("runc"))) as node:
        async with node.plugged(Plugin(answer=answer(library))):
            await node.run("p", container(tapes=1, script=SCRIPT, image=image))
            await node.phase("p", "Running")
            assert await node.held("p") == {"main": ["a"]}
            await node.wait(lambda: len(node.log("p")) == len(SEEN), f"{SEEN}")
            assert node.log("p") == SEEN
            (config,) = (node.root / "state/containers/containers").glob("*/**/config.json")
            assert json.loads(config.read_text())["annotations"]["example.com/colour"] == "red"
        await node.restart()
        await node.wait(lambda: node.processes("p"), "the container to go on")
        node.kill_containers("p")
        await node.wait_restarted("p")
        await node.wait(lambda: len(node.log("p", attempt=1)) == len(SEEN), f"{SEEN}")
        assert node.log("p", attempt=1) == SEEN
        assert await node.held("p") == {"main": ["a"]}
        await node.server.mark_deleted("p")
        await node.gone("p")
