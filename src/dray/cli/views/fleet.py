"""The devices of a cluster, one by one: where each is, how it is, and who holds it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dray.allocation.blocked import blocked_devices
from dray.api.resource import DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.api.resource.slice import Device, DeviceAttribute
from dray.api.taints import DeviceTaint
from dray.semantics.device_names import natural_order
from dray.semantics.devices import (
    DeviceKey,
    DeviceStatus,
    Holder,
    attribute_value,
    device_status,
    find_attribute,
    holders_by_taint,
    holders_in,
    is_simulated,
    product_name,
)
from dray.semantics.pools import by_pool, current
from dray.semantics.taints import with_taint_rules


@dataclass(frozen=True, slots=True)
class FleetDevice:
    """One device of a slice that is not outdated; `node` is "" where it is not one node's.

    `blocked_by`: nobody holds it, and these devices have the counters that it would draw on; None where it has its counters.
    """

    driver: str
    pool: str
    device: Device
    node: str = ""
    holders: tuple[Holder, ...] = ()
    blocked_by: tuple[str, ...] | None = None

    @property
    def key(self) -> DeviceKey:
        """Which one it is in the cluster."""
        return (self.driver, self.pool, self.device.name)

    @property
    def id(self) -> str:
        """`driver/pool/name`."""
        return "/".join(self.key)

    @property
    def status(self) -> DeviceStatus:
        """How it is, and whether a claim could get it now."""
        is_blocked = self.blocked_by is not None
        return device_status(self.device, self.device.taints, self.holders, is_blocked=is_blocked)

    @property
    def is_simulated(self) -> bool:
        """Whether there is no hardware behind it."""
        return is_simulated(self.device, self.driver)

    @property
    def product(self) -> str:
        """What it is, in its driver's words."""
        found = product_name(self.device, self.driver)
        profile = self.attribute("profile")
        found = f"{found} {profile}".strip() if profile and profile not in found else found
        return f"{found} (simulated)".strip() if self.is_simulated else found

    def attribute(self, name: str) -> str:
        """As text; "" where it has none."""
        found = find_attribute(self.device, self.driver, name)
        return attribute_text(found) if found is not None else ""


def attribute_text(attribute: DeviceAttribute) -> str:
    """Its value for people."""
    value = attribute_value(attribute)
    several = value if isinstance(value, tuple) else () if value is None else (value,)
    return ", ".join(str(one).lower() if isinstance(one, bool) else str(one) for one in several)


def taint_text(taint: DeviceTaint) -> str:
    """As `dray taint` takes it: `key=value:effect`."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def fleet(
    slices: Iterable[ResourceSlice],
    claims: Iterable[ResourceClaim] = (),
    rules: Iterable[DeviceTaintRule] = (),
) -> tuple[FleetDevice, ...]:
    """All devices of each pool, without those of outdated slices, by node, driver, pool and name."""
    counting = current(slices)
    held = holders(claims)
    blocked = _blocked(counting, held)
    found = [
        FleetDevice(
            one.spec.driver,
            one.spec.pool.name,
            device,
            one.spec.node_name or device.node_name or "",
            (
                *held.get((one.spec.driver, one.spec.pool.name, device.name), ()),
                *holders_by_taint(device.taints),
            ),
            blocked.get((one.spec.driver, one.spec.pool.name, device.name)),
        )
        for one in with_taint_rules(counting, rules)
        for device in one.spec.devices or ()
    ]
    return tuple(
        sorted(found, key=lambda one: (one.node, one.driver, one.pool, natural_order(one.device.name)))
    )


def _blocked(
    slices: Iterable[ResourceSlice], held: Mapping[DeviceKey, Iterable[Holder]]
) -> dict[DeviceKey, tuple[str, ...]]:
    taken: dict[tuple[str, str], set[str]] = {}
    for (driver, pool, name), each in held.items():
        if any(not one.admin for one in each):
            taken.setdefault((driver, pool), set()).add(name)
    return {
        (*pool, name): tuple(sorted(by, key=natural_order))
        for pool, of_pool in by_pool(slices).items()
        for name, by in blocked_devices(of_pool, taken.get(pool, ())).items()
    }


def holders(claims: Iterable[ResourceClaim]) -> Mapping[DeviceKey, tuple[Holder, ...]]:
    """Who has which device, by claim."""
    found: dict[DeviceKey, list[Holder]] = {}
    for claim in sorted(claims, key=lambda one: (one.metadata.namespace, one.metadata.name)):
        for key, holder in holders_in(claim):
            found.setdefault(key, []).append(holder)
    return {key: tuple(each) for key, each in found.items()}
