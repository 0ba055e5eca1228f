"""A DRA driver that remembers what it was told, for tests that kill its kubelet: in a thread of its own, never killed itself."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dray.wire import dra
from dray.wire.gen import dra_v1_pb2 as pb
from dray.wire.gen.pluginregistration_v1_pb2 import (
    InfoRequest,
    PluginInfo,
    RegistrationStatus,
    RegistrationStatusResponse,
)
from dray.wire.registration import DRA_PLUGIN, RegistrationService
from dray.wire.serve import serve
from tests.waiting import PATIENCE

DRIVER, POOL, REQUEST = "claims.dray.test", "node", "one"
ENV = "CLAIM_"
PREPARING, UNPREPARING = "prepare under way", "unprepare under way"


@dataclass
class ClaimDriver:
    """Gives each container of a claim a variable that names claim and device.

    `in_use(uid)` tells whether a container has the claim; `at_call` is called before a call takes effect.
    """

    socket: Path
    cdi: Path
    in_use: Callable[[str], bool]
    at_call: Callable[[str], None]
    devices: dict[str, str] = field(default_factory=dict)
    """What is allocated, by the claim's uid: written before a pod with the claim is there."""
    prepared: dict[str, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    calls: dict[str, int] = field(default_factory=dict)

    async def get_info(self, request: InfoRequest) -> PluginInfo:
        return PluginInfo(
            type=DRA_PLUGIN, name=DRIVER, endpoint=str(self.socket), supported_versions=dra.VERSIONS
        )

    async def notify_registration_status(self, request: RegistrationStatus) -> RegistrationStatusResponse:
        return RegistrationStatusResponse()

    async def node_prepare_resources(
        self, request: pb.NodePrepareResourcesRequest
    ) -> pb.NodePrepareResourcesResponse:
        self._called(PREPARING)
        return pb.NodePrepareResourcesResponse(
            claims={
                claim.uid: pb.NodePrepareResourceResponse(devices=[self._prepare(claim.uid)])
                for claim in request.claims
            }
        )

    async def node_unprepare_resources(
        self, request: pb.NodeUnprepareResourcesRequest
    ) -> pb.NodeUnprepareResourcesResponse:
        self._called(UNPREPARING)
        for claim in request.claims:
            if self.in_use(claim.uid):
                self.faults.append(f"{claim.name} is unprepared while a container has it")
            self.prepared.pop(claim.uid, None)
            self.file(claim.uid).unlink(missing_ok=True)
        return pb.NodeUnprepareResourcesResponse(
            claims={claim.uid: pb.NodeUnprepareResourceResponse() for claim in request.claims}
        )

    def _called(self, place: str) -> None:
        self.calls[place] = self.calls.get(place, 0) + 1
        self.at_call(place)

    def _prepare(self, uid: str) -> pb.Device:
        device = self.devices[uid]
        if others := [other for other, held in self.prepared.items() if held == device and other != uid]:
            self.faults.append(f"{device} is prepared for {uid} and still for {others}")
        self.prepared[uid] = device
        edits = {"env": [f"{ENV}{uid.replace('-', '_')}={uid}/{device}"]}
        spec = {
            "cdiVersion": "0.6.0",
            "kind": "dray.test/claim",
            "devices": [{"name": uid, "containerEdits": edits}],
        }
        fresh = self.file(uid).with_suffix(".new")
        fresh.write_text(json.dumps(spec))
        fresh.rename(self.file(uid))
        return pb.Device(
            request_names=[REQUEST],
            pool_name=POOL,
            device_name=device,
            cdi_device_ids=[f"dray.test/claim={uid}"],
        )

    def file(self, uid: str) -> Path:
        """Where the CDI spec of a claim is while it is prepared."""
        return self.cdi / f"dray.test-claim-{uid}.json"

    @contextmanager
    def serving(self) -> Iterator[ClaimDriver]:
        """In a thread; left: it has ended."""
        loop, ready, stop = asyncio.new_event_loop(), threading.Event(), asyncio.Event()

        async def run() -> None:
            async with serve(self.socket, [RegistrationService(self), dra.DraService(self)]):
                ready.set()
                await stop.wait()

        def work() -> None:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(run())

        thread = threading.Thread(target=work, name="claim driver")
        thread.start()
        try:
            assert ready.wait(PATIENCE), "the driver serves"
            yield self
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join(20)
