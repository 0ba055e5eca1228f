"""A device plugin or a DRA driver that lies on its socket: what it says concerns its own devices and the pods that asked for them.

The real `dray kubelet` runs as a program, and pods come from an API server. What floods, hangs and talks nonsense is in
`tests/processes/test_kubelet_bad_plugins.py`, and every byte that can be wrong in `test_sockets.py`.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from dray.api.kinds import PODS, RESOURCE_CLAIMS
from dray.errors import Error
from dray.testing.check.api_server import Place
from dray.wire.connect import connect
from dray.wire.deviceplugin import VERSION, DevicePluginRegistrationClient
from dray.wire.gen import dra_health_v1_pb2 as health_pb
from dray.wire.gen import dra_v1_pb2 as dra_pb
from dray.wire.gen.deviceplugin_v1beta1_pb2 import (
    AllocateResponse,
    CDIDevice,
    ContainerAllocateResponse,
    DeviceSpec,
    Mount,
    RegisterRequest,
)
from dray.wire.podresources import SOCKET
from tests.hostile.socket_node import GPU, NODE, Json, SocketNode, socket_node
from tests.kubelet.claims.world import Driver
from tests.kubelet.plugins.real_plugin import Plugin, devices

pytestmark = pytest.mark.asyncio(loop_scope="module")
DRIVER = "lies.example"
ODD = (
    *("../../../etc/x", "/etc/passwd", "a\nb", "\x1b[31mred", "a\0b", " ", "..", "$(id)", "`id`", "{{x}}"),
    *("ü" * 300, "\ufeff", "\u202ertl", "'", '"', "\\", "a,b", "a=b", "x" * 4096),
)
"""Names that nobody would choose."""


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def kubelet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SocketNode]:
    async with socket_node(tmp_path_factory.mktemp("l"), has_agent=False) as made:
        await made.start_good_plugin()
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def node(kubelet: SocketNode, request: pytest.FixtureRequest) -> AsyncIterator[SocketNode]:
    """The same kubelet for all: after each lie a good pod gets its device."""
    before = outside(kubelet)
    yield kubelet
    kubelet.kubelet.check()
    name = "good-" + request.node.name.replace("_", "-")
    await add_pod(kubelet, name, GPU)
    await wait_told(kubelet, name)
    assert status(kubelet, name)["phase"] == "Succeeded", told(kubelet, name)
    assert outside(kubelet) == before


def outside(node: SocketNode) -> set[Path]:
    """Where `../` and links of this file would lead."""
    return {path for path in node.root.parent.iterdir() if path != node.root}


async def register(node: SocketNode, resource: str, endpoint: str) -> None:
    request = RegisterRequest(version=VERSION, endpoint=endpoint, resource_name=resource)
    async with connect(node.plugins / "kubelet.sock", timeout=60) as channel:
        await DevicePluginRegistrationClient(channel).register(request)


async def add_pod(node: SocketNode, name: str, resource: str = "", count: int = 1, **spec: Any) -> None:
    """Its container ends at once."""
    limits = {"resources": {"limits": {resource: str(count)}}} if resource else {}
    main = {"name": "main", "image": "none", "command": ["/bin/true"], **limits}
    whole = {"nodeName": NODE, "restartPolicy": "Never", "containers": [main], **spec}
    await node.server.create(Place(PODS, "default", "", ""), {"metadata": {"name": name}, "spec": whole})


async def add_claim(node: SocketNode, name: str, pool: str = "pool") -> None:
    """A pod with a claim that has one device of the lying driver."""
    exactly = {"name": "req", "exactly": {"deviceClassName": "any"}}
    spec = {"devices": {"requests": [exactly]}}
    await node.server.create(
        Place(RESOURCE_CLAIMS, "default", "", ""), {"metadata": {"name": name}, "spec": spec}
    )
    await add_pod(node, name, resourceClaims=[{"name": "mine", "resourceClaimName": name}])
    uid = node.server.objects["pods", "default", name]["metadata"]["uid"]
    claim = copy.deepcopy(node.server.objects["resourceclaims", "default", name])
    result = {"request": "req", "driver": DRIVER, "pool": pool, "device": f"dev-{name}"}
    users = [{"resource": "pods", "name": name, "uid": uid}]
    claim["status"] = {"allocation": {"devices": {"results": [result]}}, "reservedFor": users}
    await node.server.update(Place(RESOURCE_CLAIMS, "default", name, "status"), claim)


def status(node: SocketNode, name: str) -> Json:
    found: Json = node.server.objects["pods", "default", name].get("status", {})
    return found


def told(node: SocketNode, name: str) -> str:
    """How it ended, or why it does not begin."""
    found = status(node, name)
    waiting = (found.get("containerStatuses") or [{}])[0].get("state", {}).get("waiting", {})
    if found.get("phase") in ("Failed", "Succeeded"):
        return f"{found['phase']} {found.get('message', '')}".strip()
    return str(waiting.get("message", ""))


async def wait_told(node: SocketNode, name: str) -> str:
    await node.wait(lambda: told(node, name), f"an end of {name}")
    return told(node, name)


ANSWERS: dict[str, tuple[ContainerAllocateResponse, str]] = {
    "env-empty": (ContainerAllocateResponse(envs={"": "x"}), "environment variable"),
    "env-equals": (ContainerAllocateResponse(envs={"A=B": "x"}), "environment variable"),
    "env-nul": (ContainerAllocateResponse(envs={"A\0B": "x"}), "environment variable"),
    "value-nul": (ContainerAllocateResponse(envs={"A": "x\0y"}), "environment variable"),
    "env-line": (ContainerAllocateResponse(envs={"A\nB": "x\ny"}), ""),
    "mount-relative": (
        ContainerAllocateResponse(mounts=[Mount(host_path="../x", container_path="/x")]),
        "must be absolute",
    ),
    "mount-nul": (
        ContainerAllocateResponse(mounts=[Mount(host_path="/x\0", container_path="/x")]),
        "must be absolute",
    ),
    "node-empty": (
        ContainerAllocateResponse(devices=[DeviceSpec(container_path="/dev/x", permissions="r")]),
        "must be absolute",
    ),
    "node-rights": (
        ContainerAllocateResponse(
            devices=[DeviceSpec(host_path="/dev/null", container_path="/dev/x", permissions="rwx")]
        ),
        "permissions",
    ),
    "cdi-line": (ContainerAllocateResponse(cdi_devices=[CDIDevice(name="a.b/c=d\ne")]), ""),
    "cdi-path": (ContainerAllocateResponse(cdi_devices=[CDIDevice(name="../../x=y")]), ""),
    "cdi-missing": (ContainerAllocateResponse(cdi_devices=[CDIDevice(name="a.b/c=none")]), ""),
    "annotation": (ContainerAllocateResponse(annotations={"\x1b[31m\n": "\0"}), ""),
}


async def test_answers_to_allocate(node: SocketNode) -> None:
    async with AsyncExitStack() as stack:
        for name, (answer, _) in ANSWERS.items():
            plugin = Plugin(answer=AllocateResponse(container_responses=[answer] * 3))
            await stack.enter_async_context(plugin.serving(node.plugins / f"{name}.sock"))
            await register(node, f"lies.example/{name}", f"{name}.sock")
        await node.wait(
            lambda: (
                sum(name.startswith("lies") and count == "2" for name, count in node.extended().items())
                == len(ANSWERS)
            ),
            "all",
        )
        for name in ANSWERS:
            await add_pod(node, name, f"lies.example/{name}")
        for name, (_, expected) in ANSWERS.items():
            found = await wait_told(node, name)
            wrongly = f"device plugin lies.example/{name} answered Allocate wrongly: "
            assert found.startswith(wrongly if expected else "Succeeded") and expected in found, (name, found)
            assert "\n" not in found and "\0" not in found


async def test_ids(node: SocketNode) -> None:
    listed = [*ODD, *ODD, "", "x" * 4097, "y" * 2**20]
    plugin = Plugin(first=devices(*listed))
    async with plugin.serving(node.plugins / "ids.sock"):
        await register(node, "lies.example/ids", "ids.sock")
        await node.wait(lambda: node.extended().get("lies.example/ids") == str(len(ODD)), "the ids")
        await add_pod(node, "ids", "lies.example/ids", len(ODD))
        assert await wait_told(node, "ids") == "Succeeded"
        assert {each for name, each in await node.devices() if name == "lies.example/ids"} == set(ODD)


PREPARED: dict[str, dict[str, Any]] = {
    "other-device": {"device_name": "dev-of-others"},
    "other-pool": {"pool_name": "../pool"},
    "no-names": {"device_name": "", "pool_name": ""},
    "requests": {"request_names": ["nobody", "../x", "a\nb", "x" * 5000]},
    "cdi-lines": {"cdi_device_ids": ["a.b/c=d\ne"]},
    "cdi-paths": {"cdi_device_ids": ["../../x=y", "/etc/passwd", ""]},
    "cdi-twice": {"cdi_device_ids": ["a.b/c=d"] * 200},
    "share": {"share_id": "../../x\n\x1b[31m"},
    "long-names": {"device_name": "d" * 100_000},
}


async def test_prepared_devices(node: SocketNode) -> None:
    driver = Driver(DRIVER, node.registry / "lies.sock")

    def prepare(request: dra_pb.NodePrepareResourcesRequest) -> dra_pb.NodePrepareResourcesResponse:
        answer = dra_pb.NodePrepareResourcesResponse()
        for claim in request.claims:
            honest = {"pool_name": "pool", "device_name": f"dev-{claim.name}", "request_names": ["req"]}
            device = dra_pb.Device(**{**honest, **PREPARED[claim.name]})
            answer.claims[claim.uid].devices.extend([device, device])
        return answer

    driver.on_prepare = prepare
    async with driver.serving():
        await node.wait(lambda: driver.notified, "the driver")
        for name in PREPARED:
            await add_claim(node, name)
        for name in PREPARED:
            assert await wait_told(node, name) == "Succeeded", "the process runtime hands on none of them"


async def test_health(node: SocketNode) -> None:
    driver = Driver("sick.example", node.registry / "sick.sock")
    async with driver.serving():
        await node.wait(lambda: driver.notified and driver.streams, "the driver")
        for seconds in (2**63 - 1, -(2**63), 2**40, 0):
            for health in (0, 1, 2, 99):
                driver.messages.put_nowait(
                    [
                        health_pb.DeviceHealth(
                            device=health_pb.DeviceIdentifier(pool_name=name, device_name=name),
                            health=health,  # type: ignore[arg-type]
                            health_check_timeout_seconds=seconds,
                            last_updated_time=seconds,
                            message=name,
                        )
                        for name in ODD
                    ]
                )
        await node.wait(driver.messages.empty, "all to be told")
        driver.messages.put_nowait([])
        await node.wait(driver.messages.empty, "the last one to be told")
        assert driver.streams == 1


RESOURCES = (
    "../x/y",
    "/x",
    "x/",
    "a/../b",
    "a/b/c",
    "a\n/b",
    "\x1b[31m/x",
    "kubernetes.io/x",
    "requests.a/b",
    "x" * 400 + "/y",
    "a/" + "y" * 64,
    "",
    "/",
)


async def test_what_was_kept_can_be_read_again(node: SocketNode) -> None:
    """By the next kubelet: checkpoints of devices, claims and health."""
    node.kubelet.process.kill()
    await node.kubelet.process.wait()
    (node.root / "kubelet" / SOCKET).unlink()
    await node.start_kubelet()
    await node.start_good_plugin()


ENDPOINTS = (
    "../../../elsewhere.sock",
    "link.sock",
    "..",
    "",
    "\0",
    "x" * 300,
    "kubelet.sock",
    "../../kubeconfig",
)


async def test_names_of_resources_and_endpoints(node: SocketNode) -> None:
    async with Plugin().serving(node.plugins / "names.sock"):
        for name in RESOURCES:
            with pytest.raises(Error) as caught:
                await register(node, name, "names.sock")
            assert "is invalid" in str(caught.value)
            assert "\n" not in str(caught.value) and "\x1b" not in str(caught.value)
    heard = bytearray()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.extend(await reader.read(2**16))
        writer.close()

    elsewhere = node.root.parent / "elsewhere.sock"
    server = await asyncio.start_unix_server(listen, elsewhere)
    (node.plugins / "link.sock").symlink_to(elsewhere)
    # A plugin that is about to listen is waited for, all at once for ten seconds. Names of one place take turns: test_registration.py has more.
    calls = [register(node, "lies.example/elsewhere", endpoint) for endpoint in ENDPOINTS]
    for endpoint, error in zip(ENDPOINTS, await asyncio.gather(*calls, return_exceptions=True), strict=True):
        assert isinstance(error, Error) and "failed to" in str(error), (endpoint, error)
    server.close()
    elsewhere.unlink()
    # Whoever listens there hears how HTTP/2 begins, and no call before it has answered.
    assert heard.startswith(b"PRI * HTTP/2.0") and b"DevicePlugin" not in heard
    assert not any(name.endswith("/elsewhere") for name in node.extended())
