"""The devices of a cluster, one by one: where each is, how it is, and who holds it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from dray.allocation.blocked import blocked_devices
from dray.allocation.taint_rules import with_taint_rules
from dray.api.resource import DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.api.resource.slice import Device, DeviceAttribute
from dray.api.taints import DeviceTaint, Effect
from dray.inventory.doors import HELD_BY_CLAIM, HELD_BY_PLUGIN
from dray.semantics.device_names import natural_order

HEALTHY, UNHEALTHY, TAINTED = "healthy", "unhealthy", "tainted"
_PRODUCTS: Final = ("productName", "model", "product", "type", "shape", "resource")
"""Attributes that say what a device is, the best first; a driver's own or with a domain."""

DeviceKey = tuple[str, str, str]
"""Driver, pool and device."""


@dataclass(frozen=True, slots=True)
class Holder:
    """One claim's hold on a device; `pods` are those that may use it now.

    `door` says how it was given: `dra`; `plugin`, where `claim` is "" and the pod is told without its namespace; or `other`:
    the same hardware is held as another device, by a claim that is told without its namespace.
    """

    claim: str
    pods: tuple[str, ...] = ()
    share: str = ""
    admin: bool = False
    door: str = "dra"


@dataclass(frozen=True, slots=True)
class FleetDevice:
    """One device of a pool's newest generation; `node` is "" where it is not one node's.

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
    def health(self) -> str:
        """`unhealthy` where its driver says so, `tainted` where it is kept from new pods for another reason."""
        kept = [
            one
            for one in self.device.taints
            if one.effect in (Effect.NO_SCHEDULE, Effect.NO_EXECUTE) and not _held_elsewhere(one)
        ]
        if any(one.key.endswith("/unhealthy") for one in self.device.taints):
            return UNHEALTHY
        return TAINTED if kept else HEALTHY

    @property
    def is_held(self) -> bool:
        """Admin access holds nothing."""
        return any(not one.admin for one in self.holders)

    @property
    def is_blocked(self) -> bool:
        """Whether it cannot be had though nobody holds it."""
        return self.blocked_by is not None and not self.is_held

    @property
    def is_free(self) -> bool:
        """Whether a claim could get it now."""
        return self.health == HEALTHY and not self.is_held and not self.is_blocked

    @property
    def is_simulated(self) -> bool:
        """Whether there is no hardware behind it."""
        return self.driver.startswith("sim.") or self.attribute("simulated") == "true"

    @property
    def product(self) -> str:
        """What it is, in its driver's words."""
        found = next((text for name in _PRODUCTS if (text := self.attribute(name))), "")
        profile = self.attribute("profile")
        found = f"{found} {profile}".strip() if profile and profile not in found else found
        return f"{found} (simulated)".strip() if self.is_simulated else found

    def attribute(self, name: str) -> str:
        """As text; the driver's own or one with any domain; "" where it has none."""
        for key, value in sorted(self.device.attributes.items()):
            if key == name or key.endswith(f"/{name}"):
                return attribute_text(value)
        return ""


def attribute_text(value: DeviceAttribute) -> str:
    """The one member that is set."""
    for one in (value.string_value, value.version_value, value.int_value):
        if one is not None:
            return str(one)
    if value.bool_value is not None:
        return str(value.bool_value).lower()
    several = value.string_values or value.version_values or value.int_values or value.bool_values or ()
    return ", ".join(str(one).lower() if isinstance(one, bool) else str(one) for one in several)


def taint_text(taint: DeviceTaint) -> str:
    """As `dray taint` takes it: `key=value:effect`."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def _held_elsewhere(taint: DeviceTaint) -> tuple[Holder, ...]:
    """Dray's agent tells by a taint that a device is held through another door, or as another device."""
    name = taint.key.rpartition("/")[2]
    if name == HELD_BY_PLUGIN:
        return (Holder("", (taint.value,) if taint.value else (), door="plugin"),)
    if name == HELD_BY_CLAIM:
        return (Holder(taint.value, door="other"),)
    return ()


def fleet(
    slices: Iterable[ResourceSlice],
    claims: Iterable[ResourceClaim] = (),
    rules: Iterable[DeviceTaintRule] = (),
) -> tuple[FleetDevice, ...]:
    """All devices of the newest generation of each pool, by node, driver, pool and name."""
    newest = newest_slices(slices)
    held = holders(claims)
    blocked = _blocked(newest, held)
    found = [
        FleetDevice(
            one.spec.driver,
            one.spec.pool.name,
            device,
            one.spec.node_name or device.node_name or "",
            (
                *held.get((one.spec.driver, one.spec.pool.name, device.name), ()),
                *(holder for taint in device.taints for holder in _held_elsewhere(taint)),
            ),
            blocked.get((one.spec.driver, one.spec.pool.name, device.name)),
        )
        for one in with_taint_rules(newest, rules)
        for device in one.spec.devices or ()
    ]
    return tuple(
        sorted(found, key=lambda one: (one.node, one.driver, one.pool, natural_order(one.device.name)))
    )


def _blocked(
    slices: Iterable[ResourceSlice], held: Mapping[DeviceKey, Iterable[Holder]]
) -> dict[DeviceKey, tuple[str, ...]]:
    pools: dict[tuple[str, str], list[ResourceSlice]] = {}
    for one in slices:
        pools.setdefault((one.spec.driver, one.spec.pool.name), []).append(one)
    taken: dict[tuple[str, str], set[str]] = {}
    for (driver, pool, name), each in held.items():
        if any(not one.admin for one in each):
            taken.setdefault((driver, pool), set()).add(name)
    return {
        (*pool, name): tuple(sorted(by, key=natural_order))
        for pool, of_pool in pools.items()
        for name, by in blocked_devices(of_pool, taken.get(pool, ())).items()
    }


def newest_slices(slices: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    """Older generations of a pool are what its driver is about to remove."""
    every = list(slices)
    newest: dict[tuple[str, str], int] = {}
    for one in every:
        pool = (one.spec.driver, one.spec.pool.name)
        newest[pool] = max(newest.get(pool, 0), one.spec.pool.generation)
    return [one for one in every if one.spec.pool.generation == newest[one.spec.driver, one.spec.pool.name]]


def holders(claims: Iterable[ResourceClaim]) -> Mapping[DeviceKey, tuple[Holder, ...]]:
    """Who has which device, by claim."""
    found: dict[DeviceKey, list[Holder]] = {}
    for claim in sorted(claims, key=lambda one: (one.metadata.namespace, one.metadata.name)):
        if claim.status.allocation is None:
            continue
        space = claim.metadata.namespace
        pods = tuple(f"{space}/{one.name}" for one in claim.status.reserved_for if one.resource == "pods")
        for one in claim.status.allocation.devices.results:
            holder = Holder(
                f"{space}/{claim.metadata.name}", pods, one.share_id or "", bool(one.admin_access)
            )
            found.setdefault((one.driver, one.pool, one.device), []).append(holder)
    return {key: tuple(each) for key, each in found.items()}
