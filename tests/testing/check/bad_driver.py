"""A small DRA driver with a flag for each way to break the contract; without one it keeps all rules.

python -m tests.testing.check.bad_driver KUBELET_DIRECTORY CDI_DIRECTORY [FAULT]
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from dray.api.kinds import RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.errors import Error, HardwareError, NotFoundError
from dray.wire.dra import DraService
from dray.wire.gen.dra_health_v1_pb2 import (
    DeviceHealth,
    DeviceIdentifier,
    HealthStatus,
    NodeWatchResourcesRequest,
    NodeWatchResourcesResponse,
)
from dray.wire.gen.dra_v1_pb2 import (
    Claim,
    Device,
    NodePrepareResourceResponse,
    NodePrepareResourcesRequest,
    NodePrepareResourcesResponse,
    NodeUnprepareResourceResponse,
    NodeUnprepareResourcesRequest,
    NodeUnprepareResourcesResponse,
)
from dray.wire.gen.pluginregistration_v1_pb2 import (
    InfoRequest,
    PluginInfo,
    RegistrationStatus,
    RegistrationStatusResponse,
)
from dray.wire.health import HealthService
from dray.wire.limits import Limits
from dray.wire.registration import RegistrationService
from dray.wire.serve import serve

FAULTS = {
    "silent": {"registers"},
    "csi": {"info-type"},
    "bad-name": {"info-name", "slices"},
    "old-first": {"info-versions"},
    "deaf": {"notify", "kubelet-restart"},
    "bad-slices": {"slices"},
    "prepares-all": {"prepare-unknown"},
    "other-device": {"prepare", "prepare-batch", "prepare-concurrent", "prepare-next"},
    "fickle": {"prepare-again", "versions-agree"},
    "skips": {"prepare-batch"},
    "one-at-a-time": {"prepare-concurrent"},
    "plain-cdi": {"cdi-names"},
    "no-cdi-file": {"cdi-files"},
    "broken-cdi-file": {"cdi-files"},
    "strict-unprepare": {"unprepare-again", "unprepare-unknown"},
    "nameless-health": {"health"},
    "asked-once": {"kubelet-restart"},
    "publishes-once": {"slices-return"},
    "ignores-term": {"stops"},
    "leaves-socket": {"cleans-up"},
}
"""Each fault with the rules that it breaks, and no others."""
ODD = {"fails-call": {"prepare-unknown"}}
"""What a kubelet copes with: each with the rules that warn of it. They break none."""

DRIVER = "small.example.com"
KIND = f"{DRIVER}/device"
NODE = os.environ.get("NODE_NAME", "node")


class Small:
    """Registration, prepare and health in one."""

    def __init__(self, fault: str, endpoint: Path, cdi: Path, client: Client) -> None:
        self.fault, self.endpoint, self.cdi, self.client = fault, endpoint, cdi, client
        self.prepared: set[str] = set()
        self.calls = 0
        self.asked = 0
        self.busy = False

    @property
    def name(self) -> str:
        return "small/driver" if self.fault == "bad-name" else DRIVER

    async def get_info(self, request: InfoRequest) -> PluginInfo:
        self.asked += 1
        if self.fault == "asked-once" and self.asked > 1:
            raise HardwareError("asked before")
        versions = ["v1.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAResourceHealth"]
        return PluginInfo(
            type="CSIPlugin" if self.fault == "csi" else "DRAPlugin",
            name=self.name,
            endpoint=str(self.endpoint),
            supported_versions=sorted(versions, reverse=True) if self.fault == "old-first" else versions,
        )

    async def notify_registration_status(self, request: RegistrationStatus) -> RegistrationStatusResponse:
        if self.fault == "deaf":
            raise HardwareError("not now")
        return RegistrationStatusResponse()

    async def node_prepare_resources(
        self, request: NodePrepareResourcesRequest
    ) -> NodePrepareResourcesResponse:
        if self.fault == "one-at-a-time" and self.busy:
            raise HardwareError("busy")
        self.busy = True
        await asyncio.sleep(0.01)
        self.busy = False
        claims = request.claims[:1] if self.fault == "skips" else request.claims
        return NodePrepareResourcesResponse(claims={one.uid: await self.prepare(one) for one in claims})

    async def prepare(self, claim: Claim) -> NodePrepareResourceResponse:
        try:
            found = await self.client.get_raw(RESOURCE_CLAIMS, claim.name, namespace=claim.namespace)
        except NotFoundError as error:
            if self.fault == "fails-call":
                raise
            error_text = "" if self.fault == "prepares-all" else str(error)
            return NodePrepareResourceResponse(error=error_text)
        self.calls += 1
        self.prepared.add(claim.uid)
        devices = [self.device(claim, one) for one in found["status"]["allocation"]["devices"]["results"]]
        return NodePrepareResourceResponse(devices=devices)

    def device(self, claim: Claim, result: dict[str, Any]) -> Device:
        name = f"{claim.uid}{self.calls if self.fault == 'fickle' else ''}"
        cdi_id = f"{KIND}={name}"
        if self.fault == "plain-cdi":
            cdi_id = "small"
        if self.fault not in ("no-cdi-file", "plain-cdi"):
            version = "0.0.1" if self.fault == "broken-cdi-file" else "0.6.0"
            kind, _, device = cdi_id.rpartition("=")
            spec = {
                "cdiVersion": version,
                "kind": kind,
                "devices": [{"name": device, "containerEdits": {"env": ["SMALL=1"]}}],
            }
            (self.cdi / f"{claim.uid}.json").write_text(json.dumps(spec))
        return Device(
            pool_name=result["pool"],
            device_name="other" if self.fault == "other-device" else result["device"],
            request_names=[result["request"]],
            cdi_device_ids=[cdi_id],
        )

    async def node_unprepare_resources(
        self, request: NodeUnprepareResourcesRequest
    ) -> NodeUnprepareResourcesResponse:
        return NodeUnprepareResourcesResponse(
            claims={
                one.uid: NodeUnprepareResourceResponse(error=self.unprepare(one)) for one in request.claims
            }
        )

    def unprepare(self, claim: Claim) -> str:
        if self.fault == "strict-unprepare" and claim.uid not in self.prepared:
            return "not prepared"
        self.prepared.discard(claim.uid)
        (self.cdi / f"{claim.uid}.json").unlink(missing_ok=True)
        return ""

    async def node_watch_resources(
        self, request: NodeWatchResourcesRequest
    ) -> AsyncIterator[NodeWatchResourcesResponse]:
        device = (
            DeviceIdentifier()
            if self.fault == "nameless-health"
            else DeviceIdentifier(pool_name=NODE, device_name="d0")
        )
        yield NodeWatchResourcesResponse(devices=[DeviceHealth(device=device, health=HealthStatus.HEALTHY)])
        await asyncio.sleep(60)

    async def publish(self) -> None:
        """Looks often, and writes what is missing."""
        document = {
            "metadata": {"name": f"{NODE}-small"},
            "spec": {
                "driver": self.name,
                "nodeName": NODE,
                "pool": {
                    "name": NODE,
                    "generation": 1,
                    "resourceSliceCount": 0 if self.fault == "bad-slices" else 1,
                },
                "devices": [{"name": f"d{number}"} for number in range(4)],
            },
        }
        while True:
            with suppress(Error):
                await self.client.create(RESOURCE_SLICES, document)
                if self.fault == "publishes-once":
                    return
            await asyncio.sleep(0.05)


async def main(kubelet: Path, cdi: Path, fault: str) -> None:
    task = asyncio.current_task()
    assert task is not None
    if fault == "ignores-term":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif fault != "leaves-socket":
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    endpoint = kubelet / "plugins" / "small.sock"
    limits = Limits(grace=0.1)
    async with Client(find_access(os.environ["KUBECONFIG"])) as client:
        small = Small(fault, endpoint, cdi, client)
        async with serve(endpoint, [DraService(small), HealthService(small)], limits=limits):
            if fault == "silent":
                await asyncio.sleep(60)
            registry = kubelet / "plugins_registry" / "small-reg.sock"
            async with serve(registry, [RegistrationService(small)], limits=limits):
                await small.publish()
                await asyncio.sleep(600)


if __name__ == "__main__":
    with suppress(asyncio.CancelledError):
        asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else ""))
