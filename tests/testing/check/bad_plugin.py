"""A small device plugin with a flag for each way to break the contract; without one it keeps all rules.

python -m tests.testing.check.bad_plugin DIRECTORY [FAULT]
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

from dray.errors import Error, HardwareError, InvalidError, NotFoundError
from dray.wire.connect import connect
from dray.wire.deviceplugin import DevicePluginRegistrationClient, DevicePluginService
from dray.wire.gen.deviceplugin_v1beta1_pb2 import (
    AllocateRequest,
    AllocateResponse,
    CDIDevice,
    ContainerAllocateResponse,
    ContainerPreferredAllocationResponse,
    Device,
    DevicePluginOptions,
    DeviceSpec,
    Empty,
    ListAndWatchResponse,
    NUMANode,
    PreferredAllocationRequest,
    PreferredAllocationResponse,
    PreStartContainerRequest,
    PreStartContainerResponse,
    RegisterRequest,
    TopologyInfo,
)
from dray.wire.gen.pluginregistration_v1_pb2 import (
    InfoRequest,
    PluginInfo,
    RegistrationStatus,
    RegistrationStatusResponse,
)
from dray.wire.limits import MIB, Limits
from dray.wire.registration import RegistrationService
from dray.wire.serve import serve
from dray.wire.status import Code, StatusError

FAULTS = {
    "silent": {"registers"},
    "old-version": {"version"},
    "plain-name": {"resource-name"},
    "absolute-endpoint": {"endpoint"},
    "registers-first": {"serves-first"},
    "watched": set(),
    "watched-unanswered": {"notify"},
    "watched-relative": {"endpoint"},
    "watched-other-version": {"version"},
    "empty-promise": {"options"},
    "two-minds": {"options"},
    "slow-list": {"list-first"},
    "twin-ids": {"list-ids"},
    "no-id": {"list-ids"},
    "misspelt-health": {"list-health"},
    "strange-numa": {"list-numa"},
    "huge-list": {"list-size"},
    "short-stream": {"list-stays"},
    "one-stream": {"list-again"},
    "extra-response": {"allocate"},
    "relative-path": {"allocate-paths"},
    "odd-permissions": {"allocate-permissions"},
    "plain-cdi": {"allocate-cdi"},
    "broken-variable": {"allocate-environment"},
    "one-for-two": {"allocate-several"},
    "dies-of-unknown": {"allocate-unknown"},
    "dies-of-twice": {"allocate-duplicate"},
    "one-at-a-time": {"allocate-concurrent"},
    "fickle": {"allocate-again"},
    "dies-of-cancel": {"allocate-given-up"},
    "prefers-too-many": {"preferred"},
    "prefers-others": {"preferred"},
    "pre-start-fails": {"pre-start"},
    "few-connections": {"hanging-client"},
    "deaf": {"returns", "returns-socket", "returns-often", "quiet"},
    "own-socket-only": {"returns-socket"},
    "spins": {"quiet"},
    "quits": {"quiet"},
    "ignores-term": {"stops"},
    "leaves-socket": {"cleans-up"},
}
"""Each fault with the rules that it breaks, and no others. Those that are `watched` come through `plugins_registry`."""

NAME = "small.sock"
RESOURCE = "example.com/small"
IDS = ("a", "b", "c")


class Small:
    """The plugin's answers."""

    def __init__(self, fault: str) -> None:
        self.fault = fault
        self.calls = 0
        self.starts = 0
        self.busy = False
        self.streaming = False

    async def get_device_plugin_options(self, request: Empty) -> DevicePluginOptions:
        return DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True)

    async def list_and_watch(self, request: Empty) -> AsyncIterator[ListAndWatchResponse]:
        if self.fault == "slow-list":
            await asyncio.sleep(60)
        if self.fault == "one-stream" and self.streaming:
            await asyncio.sleep(60)
        self.streaming = True
        try:
            yield ListAndWatchResponse(devices=self.devices())
            while self.fault != "short-stream":
                await asyncio.sleep(60)
        finally:
            self.streaming = False

    def devices(self) -> list[Device]:
        found = [Device(ID=name, health="Healthy") for name in IDS]
        if self.fault == "twin-ids":
            found.append(Device(ID="a", health="Healthy"))
        elif self.fault == "no-id":
            found.append(Device(health="Healthy"))
        elif self.fault == "misspelt-health":
            found.append(Device(ID="d", health="healthy"))
        elif self.fault == "strange-numa":
            found[0].topology.CopyFrom(TopologyInfo(nodes=[NUMANode(ID=-1)]))
        elif self.fault == "huge-list":
            found += [Device(ID=f"{number}-{'x' * 2000}", health="Unhealthy") for number in range(2200)]
        return found

    async def get_preferred_allocation(
        self, request: PreferredAllocationRequest
    ) -> PreferredAllocationResponse:
        answers = []
        for one in request.container_requests:
            rest = [name for name in one.available_deviceIDs if name not in one.must_include_deviceIDs]
            chosen = [*one.must_include_deviceIDs, *rest]
            if self.fault != "prefers-too-many":
                chosen = chosen[: one.allocation_size]
            if self.fault == "prefers-others":
                chosen = ["z", *chosen[1:]]
            answers.append(ContainerPreferredAllocationResponse(deviceIDs=chosen))
        return PreferredAllocationResponse(container_responses=answers)

    async def pre_start_container(self, request: PreStartContainerRequest) -> PreStartContainerResponse:
        self.starts += 1
        if self.fault == "empty-promise":
            raise StatusError(Code.UNIMPLEMENTED, "method not implemented")
        if self.fault == "pre-start-fails":
            raise HardwareError("the reset failed")
        return PreStartContainerResponse()

    async def allocate(self, request: AllocateRequest) -> AllocateResponse:
        if self.fault == "one-at-a-time" and self.busy:
            raise HardwareError("busy")
        self.busy = True
        try:
            # Long enough for another call to come, and for a caller to give up.
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            if self.fault == "dies-of-cancel":
                os._exit(3)
            raise
        finally:
            self.busy = False
        answers = [self.container(list(one.devices_ids)) for one in request.container_requests]
        if self.fault == "extra-response" and len(answers) == 1:
            answers *= 2
        if self.fault == "one-for-two":
            answers = answers[:1]
        return AllocateResponse(container_responses=answers)

    def container(self, ids: list[str]) -> ContainerAllocateResponse:
        if unknown := set(ids) - set(IDS):
            if self.fault == "dies-of-unknown":
                os._exit(3)
            raise NotFoundError(f"no device {sorted(unknown)}")
        if len(set(ids)) < len(ids):
            if self.fault == "dies-of-twice":
                os._exit(3)
            raise InvalidError("the same device twice")
        self.calls += 1
        path = f"/dev/{ids[0]}{self.calls if self.fault == 'fickle' else ''}"
        return ContainerAllocateResponse(
            devices=[
                DeviceSpec(
                    container_path=path[1:] if self.fault == "relative-path" else path,
                    host_path=path,
                    permissions="rx" if self.fault == "odd-permissions" else "rw",
                )
            ],
            cdi_devices=[CDIDevice(name="gpu0" if self.fault == "plain-cdi" else "example.com/small=a")],
            envs={"A=B" if self.fault == "broken-variable" else "SMALL": "a"},
        )


async def register(directory: Path, fault: str) -> None:
    endpoint = str(directory / NAME) if fault == "absolute-endpoint" else NAME
    request = RegisterRequest(
        version="v1alpha1" if fault == "old-version" else "v1beta1",
        endpoint=endpoint,
        resource_name="small" if fault == "plain-name" else RESOURCE,
    )
    if fault == "two-minds":
        request.options.CopyFrom(DevicePluginOptions())
    async with connect(directory / "kubelet.sock") as channel:
        await DevicePluginRegistrationClient(channel).register(request)


def identity(path: Path) -> int | None:
    try:
        return path.stat().st_ctime_ns
    except FileNotFoundError:
        return None


async def serve_once(directory: Path, fault: str) -> None:
    """Serve and register; return when the kubelet has restarted."""
    kubelet = directory / "kubelet.sock"
    started = time.monotonic()
    while (before := identity(kubelet)) is None:
        if fault == "spins":
            end = time.monotonic() + 0.05
            while time.monotonic() < end:
                pass
        if fault == "quits" and time.monotonic() - started > 0.3:
            os._exit(0)
        await asyncio.sleep(0 if fault == "spins" else 0.02)
    if fault == "registers-first":
        await register(directory, fault)
    limits = Limits(send=64 * MIB, connections=6 if fault == "few-connections" else 128, grace=0.1)
    async with serve(directory / NAME, [DevicePluginService(Small(fault))], limits=limits):
        if fault not in ("registers-first", "silent"):
            await register(directory, fault)
        while fault in ("deaf", "silent") or not restarted(directory, before, fault):
            await asyncio.sleep(0.02)


class Watched:
    """What it says on its socket in `plugins_registry`, where it serves all."""

    def __init__(self, path: Path, fault: str) -> None:
        self.path = path
        self.fault = fault

    async def get_info(self, request: InfoRequest) -> PluginInfo:
        endpoint = NAME if self.fault == "watched-relative" else str(self.path)
        versions = ["v1alpha1" if self.fault == "watched-other-version" else "v1beta1"]
        return PluginInfo(type="DevicePlugin", name=RESOURCE, endpoint=endpoint, supported_versions=versions)

    async def notify_registration_status(self, request: RegistrationStatus) -> RegistrationStatusResponse:
        if self.fault == "watched-unanswered":
            raise HardwareError("not now")
        return RegistrationStatusResponse()


async def serve_watched(path: Path, fault: str) -> None:
    """Nothing else is to be done: the kubelet asks again by itself."""
    path.unlink(missing_ok=True)
    async with serve(path, [DevicePluginService(Small(fault)), RegistrationService(Watched(path, fault))]):
        await asyncio.Event().wait()


def restarted(directory: Path, before: int, fault: str) -> bool:
    now = identity(directory / "kubelet.sock")
    if fault == "own-socket-only":
        return identity(directory / NAME) is None
    return now != before


async def main(directory: Path, fault: str) -> None:
    task = asyncio.current_task()
    assert task is not None
    if fault == "ignores-term":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif fault == "leaves-socket":
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    else:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    while True:
        with suppress(Error):
            if fault.startswith("watched"):
                await serve_watched(directory.parent / "plugins_registry" / NAME, fault)
            await serve_once(directory, fault)
        await asyncio.sleep(0.02)


if __name__ == "__main__":
    with suppress(asyncio.CancelledError):
        asyncio.run(main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""))
