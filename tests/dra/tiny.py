"""A tiny driver around a dictionary: what prepares, where claims come from, and a kubelet's calls into it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from dray.api.meta import ObjectMeta
from dray.api.resource import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimStatus,
)
from dray.dra.parcels import ClaimRef, PreparedDevice
from dray.dra.serve import Retries
from dray.errors import NotFoundError
from dray.runtime.backoff import BackoffPolicy
from dray.runtime.clock import SystemClock
from dray.wire.gen.dra_v1_pb2 import Claim

DRIVER = "tape.example.com"
NODE = "node-1"
QUICK = Retries(limit=5.0, conflicts=0.2, backoff=BackoffPolicy(first=0.01, limit=0.05))


def ref_of(name: str) -> ClaimRef:
    return ClaimRef("ns", name, f"{name}-uid")


def claim_of(name: str, *requests: str, driver: str = DRIVER) -> ResourceClaim:
    """An allocated claim, one device for each request (`main` where none is named)."""
    results = tuple(
        DeviceRequestAllocationResult(
            request=request, driver=driver, pool=NODE, device=f"{name}-{request.replace('/', '-')}"
        )
        for request in requests or ("main",)
    )
    return ResourceClaim(
        metadata=ObjectMeta(name=name, namespace="ns", uid=f"{name}-uid"),
        status=ResourceClaimStatus(
            allocation=AllocationResult(devices=DeviceAllocationResult(results=results))
        ),
    )


def asked(*names: str) -> list[Claim]:
    """As a kubelet names claims."""
    return [Claim(namespace="ns", name=name, uid=f"{name}-uid") for name in names]


@dataclass
class Claims:
    """Every claim there is, unless it is among the missing."""

    missing: set[str] = field(default_factory=set)
    failures: list[Exception] = field(default_factory=list)
    """What the next questions are answered with."""
    asked: int = 0

    async def get(self, ref: ClaimRef) -> ResourceClaim:
        self.asked += 1
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop(0)
        if ref.name in self.missing:
            raise NotFoundError(f"claim {ref} does not exist any more")
        return claim_of(ref.name)


@dataclass
class Tape:
    """Prepares in a dictionary. `fails` may raise for a claim's name; `gate`, where there is one, holds all work up."""

    prepared: dict[str, str] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    fails: Callable[[str], None] | None = None
    gate: asyncio.Event | None = None
    at_once: int = 0
    most_at_once: int = 0
    cancelled: int = 0

    async def prepare(self, claim: ResourceClaim) -> tuple[PreparedDevice, ...]:
        name = claim.metadata.name
        await self._work("prepare", name)
        self.prepared[claim.metadata.uid] = name
        assert claim.status.allocation is not None
        return tuple(_device(one, name) for one in claim.status.allocation.devices.results)

    async def unprepare(self, ref: ClaimRef) -> None:
        await self._work("unprepare", ref.name)
        self.prepared.pop(ref.uid, None)

    async def _work(self, method: str, name: str) -> None:
        self.calls.append((method, name))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await (self.gate.wait() if self.gate is not None else asyncio.sleep(0))
            if self.fails is not None:
                self.fails(name)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.at_once -= 1


def _device(result: DeviceRequestAllocationResult, claim: str) -> PreparedDevice:
    cdi = (f"{DRIVER}/dev={claim}",)
    return PreparedDevice((result.request,), result.pool, result.device, cdi, result.share_id)


class PausesNoted(SystemClock):
    """The machine's clock; `pauses` is what it was asked to sleep, in order."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await super().sleep(seconds)


def failing(names: Iterable[str], error: Callable[[], Exception]) -> Callable[[str], None]:
    """For `Tape.fails`."""
    bad = set(names)

    def fails(name: str) -> None:
        if name in bad:
            raise error()

    return fails
