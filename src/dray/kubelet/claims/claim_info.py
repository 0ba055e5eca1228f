"""What the node knows of one claim: who uses it here, and what its drivers gave. Pure values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from dray.api.resource import ResourceClaim
from dray.errors import UnavailableError


@dataclass(frozen=True, slots=True)
class ClaimDevice:
    """One prepared device as its driver described it. No `requests`: it serves all requests of the claim."""

    pool: str
    name: str
    share_id: str | None = None
    requests: tuple[str, ...] = ()
    cdi_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClaimInfo:
    """One claim on this node. `drivers` has every driver of the allocation, also one that gave no device.

    `is_prepared` is not on the disk: after a restart the next pod that needs the claim asks the drivers again.
    """

    namespace: str
    name: str
    uid: str
    pods: frozenset[str] = frozenset()
    drivers: Mapping[str, tuple[ClaimDevice, ...]] = field(default_factory=dict)
    is_prepared: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """How it is found: namespace and name."""
        return (self.namespace, self.name)

    def with_pod(self, uid: str) -> ClaimInfo:
        """One more pod uses it; adding it twice changes nothing."""
        return replace(self, pods=self.pods | {uid})

    def without_pod(self, uid: str) -> ClaimInfo:
        """That pod does not use it any more."""
        return replace(self, pods=self.pods - {uid})

    def with_drivers(self, names: Iterable[str]) -> ClaimInfo:
        """Drivers the allocation names now; a new one means that the claim has to be prepared again."""
        added = {name: () for name in names if name not in self.drivers}
        if not added:
            return self
        return replace(self, drivers={**self.drivers, **added}, is_prepared=False)

    def with_devices(self, driver: str, devices: Iterable[ClaimDevice]) -> ClaimInfo:
        """A driver's answer replaces what it said before, so that a repeated call does not double its devices."""
        return replace(self, drivers={**self.drivers, driver: tuple(devices)})

    def devices(self) -> Iterator[tuple[str, ClaimDevice]]:
        """All devices with their drivers, in a fixed order."""
        for driver in sorted(self.drivers):
            for device in self.drivers[driver]:
                yield driver, device

    def cdi_ids(self, request: str) -> tuple[str, ...]:
        """The CDI ids for one request, compared as text; "" stands for all requests."""
        return tuple(
            cdi_id
            for _, device in self.devices()
            if not request or not device.requests or request in device.requests
            for cdi_id in device.cdi_ids
        )


def from_claim(claim: ResourceClaim) -> ClaimInfo:
    """A claim that no pod here uses yet; UnavailableError while it is not allocated."""
    meta, allocation = claim.metadata, claim.status.allocation
    if allocation is None:
        raise UnavailableError(f"ResourceClaim {meta.name}: not allocated")
    drivers = {result.driver: () for result in allocation.devices.results}
    return ClaimInfo(meta.namespace, meta.name, meta.uid, drivers=drivers)
