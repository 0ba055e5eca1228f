from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from dray.wire import cri
from dray.wire.connect import connect
from dray.wire.cri import ImagesClient, ImagesService, RuntimeClient, RuntimeService
from dray.wire.gen import cri_v1_pb2 as pb
from dray.wire.serve import serve
from dray.wire.service import Streaming, methods_of


class Everything:
    """Answers every call with an empty message, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        method = dict(methods_of(RuntimeClient)).get(name) or dict(methods_of(ImagesClient))[name]

        async def unary(request: Any) -> Any:
            self.asked.append(request)
            return method.response()

        async def streaming(request: Any) -> AsyncIterator[Any]:
            self.asked.append(request)
            yield method.response()

        return streaming if isinstance(method, Streaming) else unary


async def test_every_call_of_a_runtime(socket_path: Path) -> None:
    handler = Everything()
    services = [RuntimeService(handler), ImagesService(handler)]
    async with (
        serve(socket_path, services, limits=cri.LIMITS),
        connect(socket_path, limits=cri.LIMITS) as channel,
    ):
        for client in (RuntimeClient(channel), ImagesClient(channel)):
            for name, method in methods_of(type(client)):
                call: Any = getattr(client, name)
                if isinstance(method, Streaming):
                    async with call(method.request()) as answers:
                        assert [answer async for answer in answers] == [method.response()]
                else:
                    assert await call(method.request()) == method.response()
    assert len(handler.asked) == 21


async def test_a_container_arrives_whole(socket_path: Path) -> None:
    handler = Everything()
    config = pb.ContainerConfig(
        metadata=pb.ContainerMetadata(name="main", attempt=1),
        image=pb.ImageSpec(image="busybox"),
        command=["sleep"],
        args=["5"],
        envs=[pb.KeyValue(key="ODD", value=b"\xff")],
        devices=[pb.Device(container_path="/dev/x", host_path="/dev/y", permissions="rw")],
        CDI_devices=[pb.CDIDevice(name="vendor.com/class=device")],
        linux=pb.LinuxContainerConfig(
            resources=pb.LinuxContainerResources(cpu_shares=2, unified={"memory.high": "1"}),
            security_context=pb.LinuxContainerSecurityContext(
                run_as_user=pb.Int64Value(value=0), seccomp=pb.SecurityProfile(profile_type="Unconfined")
            ),
        ),
    )
    request = pb.CreateContainerRequest(pod_sandbox_id="p", config=config)
    async with serve(socket_path, [RuntimeService(handler)]), connect(socket_path) as channel:
        await RuntimeClient(channel).create_container(request)
    assert handler.asked == [request]
    assert handler.asked[0].config.linux.security_context.HasField("run_as_user")
