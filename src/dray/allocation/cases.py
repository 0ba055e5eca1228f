"""Recorded allocator cases: one JSON object in, one out, for `dray allocate --cases`.

The objects of a case are not validated first, for such tables hold invalid ones on purpose.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from dray.allocation.allocator import Allocator, Options
from dray.allocation.candidates import Selectors
from dray.allocation.features import Features, Tier
from dray.allocation.profiles import KUBERNETES_1_36, Profile
from dray.allocation.selector import features_for_selectors
from dray.allocation.state import AllocatedState, DeviceID, ShareID
from dray.api.codec.json_codec import to_raw, view
from dray.api.core.node import Node
from dray.api.quantity import Quantity
from dray.api.resource.claim import ResourceClaim
from dray.api.resource.device_class import DeviceClass
from dray.api.resource.slice import ResourceSlice
from dray.errors import InvalidError

AUTO: Final = "auto"


class Case(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One case. `tier` "auto" is what Kubernetes would pick for the features; recorded answers are ignored."""

    name: str = ""
    tier: str = Tier.EXPERIMENTAL
    features: tuple[str, ...] = ()
    node: Node = Node()
    classes: tuple[DeviceClass, ...] = ()
    slices: tuple[ResourceSlice, ...] = ()
    claims: tuple[ResourceClaim, ...] = ()
    allocated_devices: tuple[str, ...] = ()
    allocated_shared_device_ids: tuple[str, ...] = msgspec.field(default=(), name="allocatedSharedDeviceIDs")
    allocated_capacity: dict[str, dict[str, Quantity]] = msgspec.field(default_factory=dict)


SelectorsFor = Callable[[Features], Selectors]


def run_case(
    case: Mapping[str, Any], selectors_for: SelectorsFor, profile: Profile = KUBERNETES_1_36
) -> dict[str, Any]:
    """The answer to one case: `results` is None where nothing fits, `error` is "" where there is none."""
    name = str(case.get("name", ""))
    try:
        results = _allocate(read_case(case), selectors_for, profile)
    except InvalidError as error:
        return {"name": name, "results": None, "error": str(error)}
    return {"name": name, "results": results, "error": ""}


def read_case(case: Mapping[str, Any]) -> Case:
    """The case with its objects typed; raises InvalidError with the place. A null is as good as nothing."""
    return view(case, Case)


def allocator_of(case: Case, selectors_for: SelectorsFor, profile: Profile) -> Allocator:
    """The allocator that a case describes."""
    features = Features.named(case.features)
    if case.tier not in (AUTO, *Tier):
        raise InvalidError(f"no tier {case.tier!r}: there are {', '.join((AUTO, *Tier))}", field="tier")
    options = Options(features, profile, None if case.tier == AUTO else Tier(case.tier))
    return Allocator(
        options,
        allocated=_state(case),
        classes=case.classes,
        slices=case.slices,
        selectors=selectors_for(features_for_selectors(features, profile)),
    )


def device_id(text: str) -> DeviceID:
    """Reads DRIVER/POOL/DEVICE. A pool's name may have slashes of its own."""
    driver, _, rest = text.partition("/")
    pool, slash, device = rest.rpartition("/")
    if not slash:
        raise InvalidError(f"{text!r} is not DRIVER/POOL/DEVICE")
    return DeviceID(driver, pool, device)


def _allocate(case: Case, selectors_for: SelectorsFor, profile: Profile) -> list[Any] | None:
    allocation = allocator_of(case, selectors_for, profile).allocate(case.node, case.claims)
    if allocation is None:
        return None
    return [to_raw(result) for result in allocation.results]


def _state(case: Case) -> AllocatedState:
    shares = []
    for text in case.allocated_shared_device_ids:
        device, slash, share = text.rpartition("/")
        if not slash:
            raise InvalidError(f"no share ID in {text!r}")
        shares.append(ShareID(device_id(device), share))
    return AllocatedState(
        frozenset(device_id(text) for text in case.allocated_devices),
        frozenset(shares),
        {device_id(text): amounts for text, amounts in case.allocated_capacity.items()},
    )
