"""ResourceSlice (resource.k8s.io/v1): a part of a driver's pool of devices."""

from __future__ import annotations

from typing import Final

from msgspec import field

from dray.api.meta import Int64, Model, ObjectMeta, always
from dray.api.quantity import ZERO, Quantity
from dray.api.selectors.types import NodeSelector
from dray.api.taints import DeviceTaint

RESOURCE_API: Final = "resource.k8s.io/v1"


class DeviceAttribute(Model, frozen=True, kw_only=True):
    """A typed fact about a device; exactly one member is set. An empty list is set, and invalid."""

    int_value: Int64 | None = field(default=None, name="int")
    bool_value: bool | None = field(default=None, name="bool")
    string_value: str | None = field(default=None, name="string")
    version_value: str | None = field(default=None, name="version")
    int_values: tuple[Int64, ...] | None = field(default=None, name="ints")
    bool_values: tuple[bool, ...] | None = field(default=None, name="bools")
    string_values: tuple[str, ...] | None = field(default=None, name="strings")
    version_values: tuple[str, ...] | None = field(default=None, name="versions")


class CapacityRequestPolicyRange(Model, frozen=True, kw_only=True):
    """A request is rounded up to `min` plus a multiple of `step`, up to `max`."""

    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityRequestPolicy(Model, frozen=True, kw_only=True):
    """How much of a capacity one claim may take, and what it gets if it does not say."""

    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(Model, frozen=True, kw_only=True):
    """An amount a device has; with a policy, and multiple allocations allowed, claims share it."""

    value: Quantity = ZERO
    request_policy: CapacityRequestPolicy | None = None


class Counter(Model, frozen=True, kw_only=True):
    """An amount in a counter set, or what a device takes from it."""

    value: Quantity = ZERO


class CounterSet(Model, frozen=True, kw_only=True):
    """Amounts that several devices draw on (partitions of one GPU)."""

    name: str = ""
    counters: dict[str, Counter] = field(default_factory=dict)


class DeviceCounterConsumption(Model, frozen=True, kw_only=True):
    """What a device takes from one counter set while it is allocated."""

    counter_set: str = ""
    counters: dict[str, Counter] = field(default_factory=dict)


class NodeAllocatableResourceMapping(Model, frozen=True, kw_only=True):
    """How much of a node resource (cpu, memory) an allocation of the device uses (alpha in 1.36)."""

    capacity_key: str | None = None
    allocation_multiplier: Quantity | None = None


class Device(Model, frozen=True, kw_only=True):
    """One device of a pool; its name is unique there."""

    name: str = ""
    attributes: dict[str, DeviceAttribute] = field(default_factory=dict)
    capacity: dict[str, DeviceCapacity] = field(default_factory=dict)
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool | None = None
    node_allocatable_resource_mappings: dict[str, NodeAllocatableResourceMapping] = field(
        default_factory=dict
    )


class ResourcePool(Model, frozen=True, kw_only=True):
    """The pool this slice is a part of; only the slices of its highest generation count."""

    name: str = ""
    generation: Int64 = 0
    resource_slice_count: Int64 = 0


class ResourceSliceSpec(Model, frozen=True, kw_only=True):
    """Exactly one of the four node fields is set. A slice has devices or shared counters, never both.

    `devices` and `shared_counters` are None where absent: even an empty list of one excludes the other.
    """

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    devices: tuple[Device, ...] | None = None
    per_device_node_selection: bool | None = None
    shared_counters: tuple[CounterSet, ...] | None = None


class ResourceSlice(Model, frozen=True, kw_only=True, gc=True, weakref=True):
    """Written by a DRA driver, read by the scheduler. Referred to weakly by what is worked out from it once."""

    api_version: str = field(default_factory=always(RESOURCE_API))
    kind: str = field(default_factory=always("ResourceSlice"))
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceSliceSpec = ResourceSliceSpec()
