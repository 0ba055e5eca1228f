"""What the page is told about nodes and devices. The fields are a contract with the page (docs/reference/dashboard.md)."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

import msgspec

SHARED: str = "*"
"""The place of devices that are not on one node; no node can have this name."""


class DeviceId(NamedTuple):
    """Which device: its driver, pool and name."""

    driver: str
    pool: str
    name: str

    @staticmethod
    def parse(text: str) -> DeviceId:
        """From `DRIVER/POOL/NAME`; only a pool's name may have slashes in it."""
        driver, _, rest = text.partition("/")
        pool, _, name = rest.rpartition("/")
        return DeviceId(driver, pool, name)

    def __str__(self) -> str:
        return "/".join(self)


class View(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Something that is told, in JSON's spelling."""


class TaintView(View, frozen=True, kw_only=True):
    """`by` is `slice` for the driver's own, else `rule/NAME`."""

    key: str
    value: str
    effect: str
    time: datetime | None
    by: str


class HolderView(View, frozen=True, kw_only=True):
    """Who has a device. Through a device plugin there is no claim, and of the pod only the name is known; as another device
    of the same hardware (`door` is `other`) only the claim's name.
    """

    claim: str
    pods: tuple[str, ...]
    door: str


class DeviceView(View, frozen=True, kw_only=True):
    """One device. `parent` is the id of the whole device, of a partition; `available` means that a claim could get it now, or
    a share of it. `state` is the one word for it: `free`, `held`, `blocked`, `tainted` or `unhealthy`.

    `blocked_by` are the ids of those that took the counters it lacks.
    """

    id: str
    name: str
    driver: str
    node: str
    kind: str
    product: str
    state: str
    health: str
    taints: tuple[TaintView, ...]
    holders: tuple[HolderView, ...]
    numa: int | None
    pcie_root: str | None
    pci_bus_id: str | None = msgspec.field(name="pciBusID")
    parent: str | None
    profile: str | None
    shareable: bool
    simulated: bool
    available: bool
    blocked_by: tuple[str, ...] = ()


class Summary(View, frozen=True, kw_only=True):
    """How many whole devices there are and how they are; partitions count apart."""

    devices: int = 0
    free: int = 0
    held: int = 0
    unhealthy: int = 0
    tainted: int = 0
    partitions: int = 0
    partitions_held: int = 0


class FleetSummary(Summary, frozen=True, kw_only=True):
    """The same for all nodes."""

    nodes: int = 0
    nodes_ready: int = 0
    pending_pods: int = 0
    pending_claims: int = 0


class ResourceView(View, frozen=True, kw_only=True):
    """What a device plugin offers on a node, and which pods use how much of it. Amounts are texts, as Kubernetes has them."""

    name: str
    capacity: str
    allocatable: str
    used: str
    pods: tuple[tuple[str, str], ...]


class NodeView(View, frozen=True, kw_only=True):
    """One node. `hollow`: no machine is behind it."""

    name: str
    ready: bool
    hollow: bool
    shared: bool
    summary: Summary
    devices: tuple[DeviceView, ...]
    resources: tuple[ResourceView, ...]


class ClaimRow(View, frozen=True, kw_only=True):
    """A claim in a list. `device_class` names all classes it asks for."""

    namespace: str
    name: str
    state: str
    device_class: str = msgspec.field(name="class")
    requests: int
    devices: tuple[str, ...]
    node: str
    pods: tuple[str, ...]
    created: datetime | None
    age: int
    reason: str


class PodRow(View, frozen=True, kw_only=True):
    """A pod that asks for devices."""

    namespace: str
    name: str
    state: str
    devices: tuple[str, ...]
    node: str
    claims: tuple[str, ...]
    resources: dict[str, str]
    created: datetime | None
    age: int
    reason: str


class EventRow(View, frozen=True, kw_only=True):
    """Something that happened. The same `key` again is the same thing, told once more."""

    key: str
    time: datetime | None
    type: str
    reason: str
    object: str
    message: str
    by: str
    count: int


class Moment(View, frozen=True, kw_only=True):
    """One entry of a device's story; `time` is None where nobody recorded it."""

    time: datetime | None
    stage: str
    text: str
    by: str
    claim: str = ""
    pod: str = ""


def json(value: Any) -> bytes:
    """As it is sent."""
    return msgspec.json.encode(value, enc_hook=str)
