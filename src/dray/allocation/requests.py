"""What the claims ask for, resolved and checked before any device is tried."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dray.allocation.faults import AllocationError
from dray.allocation.features import Features, Tier
from dray.api.limits import MAX_ALLOCATION_RESULTS
from dray.api.resource.claim import (
    ALL,
    EXACT_COUNT,
    DeviceRequest,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
)
from dray.api.resource.device_class import DeviceClass

if TYPE_CHECKING:
    from dray.allocation.candidates import Candidate


@dataclass(frozen=True, slots=True)
class Request:
    """A request, or one alternative of it (then `parent` is the request's name).

    `ordinal` is unique in one call. `every` lists the devices of an `All` request, else it is None.
    """

    ordinal: int
    claim: int
    index: int
    claim_name: str
    name: str
    parent: str
    wish: ExactDeviceRequest | DeviceSubRequest
    device_class: DeviceClass
    count: int = 0
    every: tuple[Candidate, ...] | None = None

    @property
    def full_name(self) -> str:
        """As results name it: REQUEST or REQUEST/SUBREQUEST."""
        return f"{self.parent}/{self.name}" if self.parent else self.name

    @property
    def base_name(self) -> str:
        """The name of the request itself."""
        return self.parent or self.name

    @property
    def is_admin(self) -> bool:
        """Whether devices in use may be given too."""
        return isinstance(self.wish, ExactDeviceRequest) and bool(self.wish.admin_access)

    @property
    def place(self) -> str:
        """How errors name it."""
        return f"claim {self.claim_name}, request {self.name}"


@dataclass(frozen=True, slots=True)
class PlannedClaim:
    """A claim and, for each of its requests, the alternatives in order (one without a parent where there are none)."""

    claim: ResourceClaim
    requests: tuple[tuple[Request, ...], ...]


Everything = Callable[[Request], tuple["Candidate", ...]]


def claim_name(claim: ResourceClaim) -> str:
    """NAMESPACE/NAME, or the name where there is no namespace."""
    meta = claim.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


class Planner:
    """Turns claims into plans; raises AllocationError with Kubernetes' words at the first thing that cannot be.

    `everything` finds the devices of an `All` request and may raise too.
    """

    def __init__(
        self, features: Features, tier: Tier, classes: Mapping[str, DeviceClass], everything: Everything
    ) -> None:
        self._features = features
        self._tier = tier
        self._classes = classes
        self._everything = everything
        self._made = 0

    def plan(self, number: int, claim: ResourceClaim) -> PlannedClaim:
        """One claim; `number` is its place in the call."""
        requests = tuple(
            self._alternatives(number, index, claim, request)
            for index, request in enumerate(claim.spec.devices.requests)
        )
        smallest = sum(min(one.count for one in alternatives) for alternatives in requests)
        if smallest > MAX_ALLOCATION_RESULTS:
            raise AllocationError(
                f"claim {claim_name(claim)}: number of requested devices {smallest} "
                f"exceeds the claim limit of {MAX_ALLOCATION_RESULTS}"
            )
        if smallest < 0:
            raise AllocationError(
                f"claim {claim_name(claim)}: number of requested devices {smallest} is negative"
            )
        return PlannedClaim(claim, requests)

    def _alternatives(
        self, number: int, index: int, claim: ResourceClaim, request: DeviceRequest
    ) -> tuple[Request, ...]:
        self._check_gates(claim, request)
        wishes: Sequence[tuple[str, str, ExactDeviceRequest | DeviceSubRequest]]
        if request.first_available:
            wishes = [(one.name, request.name, one) for one in request.first_available]
        elif request.exactly is not None:
            wishes = [(request.name, "", request.exactly)]
        else:
            raise AllocationError(
                f"claim {claim_name(claim)}, request {request.name}: neither exactly nor firstAvailable is set"
            )
        return tuple(self._resolve(number, index, claim, *wish) for wish in wishes)

    def _check_gates(self, claim: ResourceClaim, request: DeviceRequest) -> None:
        where = f"claim {claim_name(claim)}"
        if request.first_available and not self._features.prioritized_list:
            raise AllocationError(
                f"{where}, request {request.name}: has subrequests, "
                "but the DRAPrioritizedList feature is disabled"
            )
        if self._features.consumable_capacity or self._tier is Tier.STABLE:
            return
        disabled = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
        if request.exactly is not None and request.exactly.capacity is not None:
            raise AllocationError(f"{where}, request {request.name}: {disabled}")
        for one in request.first_available:
            if one.capacity is not None:
                raise AllocationError(f"{where}, subrequest {one.name}: {disabled}")

    def _resolve(
        self,
        number: int,
        index: int,
        claim: ResourceClaim,
        name: str,
        parent: str,
        wish: ExactDeviceRequest | DeviceSubRequest,
    ) -> Request:
        where = f"claim {claim_name(claim)}, request {name}"
        device_class = self._check_wish(where, wish)
        self._made += 1
        request = Request(
            self._made, number, index, claim_name(claim), name, parent, wish, device_class, wish.count
        )
        if wish.allocation_mode == EXACT_COUNT:
            return request
        if wish.allocation_mode != ALL:
            raise AllocationError(f"{where}: unsupported count mode {wish.allocation_mode}")
        every = self._everything(request)
        return replace(request, count=len(every), every=every)

    def _check_wish(self, where: str, wish: ExactDeviceRequest | DeviceSubRequest) -> DeviceClass:
        for number, selector in enumerate(wish.selectors):
            if selector.cel is None:
                raise AllocationError(
                    f"{where}, selector #{number}: CEL expression empty (unsupported selector type?)"
                )
        if (
            isinstance(wish, ExactDeviceRequest)
            and wish.admin_access is not None
            and not self._features.admin_access
        ):
            raise AllocationError(f"{where}: admin access is requested, but the feature is disabled")
        if not wish.device_class_name:
            raise AllocationError(f"{where}: missing device class name (unsupported request type?)")
        try:
            return self._classes[wish.device_class_name]
        except KeyError:
            name = wish.device_class_name
            raise AllocationError(
                f'{where}: could not retrieve device class {name}: deviceclass.resource.k8s.io "{name}" not found'
            ) from None
