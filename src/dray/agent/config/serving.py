"""What the agent serves: the decision from configuration, gates and role, as one frozen value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from dray.agent.config.additions import (
    DEFAULT_DOMAIN,
    Additions,
    DraSettings,
    Role,
    Unit,
    resource_of,
)
from dray.agent.config.conflicts import is_ours
from dray.agent.config.doors import door_of
from dray.agent.config.load import AgentConfig
from dray.api.kubevirt.gates import is_mdev_handling_enabled
from dray.api.kubevirt.mdev_types import desired_mdev_types, external_mdev_types, normalize_type_name
from dray.api.kubevirt.permanent import (
    RESOURCE_PREFIX,
    has_iommufd,
    max_devices,
    permanent_nodes,
    permanent_sockets,
)
from dray.api.kubevirt.types import Configuration, PermittedHostDevices
from dray.drivers.nvidia.config import NvidiaConfig
from dray.drivers.sim.config import SimConfig, named
from dray.hardware.parse import pci_address
from dray.inventory.doors import Offered

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class GenericRule:
    """A device node that containers share, `count` at once. With `is_glob` every node that matches is one of its own."""

    resource: str
    name: str
    path: str
    count: int
    pre_open: bool = False
    is_glob: bool = False


@dataclass(frozen=True, slots=True)
class SocketRule:
    """A socket that containers share: see `dray.api.kubevirt.permanent`. `count` None is the host's `capacity_key`."""

    resource: str
    name: str
    path: str
    count: int | None
    required: bool
    owned: bool
    capacity_key: str = ""


@dataclass(frozen=True, slots=True)
class PciRule:
    """PCI functions by address, or by `vendor:device`; the other is empty, both as the kernel spells them."""

    resource: str
    selector: str = ""
    address: str = ""


@dataclass(frozen=True, slots=True)
class MdevRule:
    """Mediated devices by the normalised name (or id) of their type."""

    resource: str
    type_name: str


@dataclass(frozen=True, slots=True)
class UsbRule:
    """USB devices: a set with one for each (vendor, product), four digits each; or one by port, serial number or both."""

    resource: str
    selectors: tuple[tuple[str, str], ...] = ()
    port: str = ""
    serial: str = ""


@dataclass(frozen=True, slots=True)
class MdevTypes:
    """Types of mediated devices to create. Not `managed`: create and remove none. `external`: never remove these."""

    managed: bool
    desired: tuple[str, ...] = ()
    external: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class VgpuRule:
    """The profile for a virtual function, by address or `vendor:device`; an address goes before a selector."""

    profile: int | str
    selector: str = ""
    address: str = ""


@dataclass(frozen=True, slots=True)
class Served:
    """Everything the agent serves. Two equal values mean that nothing changed.

    In `pci`, `mdevs` and `usb` the first rule that takes a device wins; rules for single devices come first.
    `iommufd` is the number of shares, 0 where it is not served. `sim` has a resource name in every entry. `doors` is as
    the file has it: ask `door_of`.
    """

    generic: tuple[GenericRule, ...] = ()
    sockets: tuple[SocketRule, ...] = ()
    iommufd: int = 0
    pci: tuple[PciRule, ...] = ()
    mdevs: tuple[MdevRule, ...] = ()
    usb: tuple[UsbRule, ...] = ()
    unit: Unit = Unit.IOMMU_GROUP
    mdev_types: MdevTypes = MdevTypes(managed=False)
    vgpu_profiles: tuple[VgpuRule, ...] = ()
    sim: SimConfig = field(default_factory=SimConfig)
    nvidia: NvidiaConfig | None = None
    domain: str = DEFAULT_DOMAIN
    doors: Mapping[str, Offered] = field(default_factory=dict)
    dra: DraSettings = field(default_factory=DraSettings)

    @property
    def resources(self) -> tuple[str, ...]:
        """The names of all resources but iommufd's, sorted."""
        kinds = (self.generic, self.sockets, self.pci, self.mdevs, self.usb)
        simulated = {entry.resource_name for entry in self.sim.devices}
        if self.nvidia is not None:
            simulated.add(self.nvidia.offer(self.nvidia.resource_name)[0])
        return tuple(sorted(simulated.union(rule.resource for rules in kinds for rule in rules)))

    def door_of(self, kind: str, resource: str) -> Offered:
        """How a device of this kind and resource (empty: it has none) is offered: through which doors."""
        return door_of(self.doors, kind, resource)


def served(config: AgentConfig, node_labels: Mapping[str, str] | None = None) -> Served:
    """What to serve on a node with these labels; they are added to those of the file and win over them."""
    labels = {**config.additions.node_labels, **(node_labels or {})}
    is_alone = config.role is Role.REPLACE
    configuration = config.configuration
    permitted = configuration.permitted_host_devices or PermittedHostDevices()
    return Served(
        generic=(*(_permanent(configuration) if is_alone else ()), *_generic(config.additions)),
        sockets=_sockets(configuration) if is_alone else (),
        iommufd=max_devices(configuration) if is_alone and has_iommufd(configuration) else 0,
        pci=_pci(permitted, config),
        mdevs=_mdevs(permitted) if is_alone else (),
        usb=_usb(permitted, config),
        unit=Unit(config.additions.unit),
        mdev_types=_mdev_types(configuration, labels) if is_alone else MdevTypes(managed=False),
        vgpu_profiles=_profiles(config.additions),
        sim=named(config.additions.sim, config.additions.domain),
        nvidia=config.additions.nvidia,
        domain=config.additions.domain,
        doors={key: Offered(value) for key, value in sorted(config.additions.doors.items())},
        dra=config.additions.dra,
    )


def _permanent(configuration: Configuration) -> Iterable[GenericRule]:
    count = max_devices(configuration)
    for node in permanent_nodes(configuration):
        yield GenericRule(RESOURCE_PREFIX + node.name, node.name, node.path, count, node.pre_open)


def _generic(additions: Additions) -> Iterable[GenericRule]:
    for one in additions.generic:
        resource, path = resource_of(one, additions), one.path or one.glob
        yield GenericRule(resource, one.name, path, one.count, one.pre_open, bool(one.glob))


def _sockets(configuration: Configuration) -> tuple[SocketRule, ...]:
    count = max_devices(configuration)
    return tuple(
        SocketRule(
            RESOURCE_PREFIX + one.name,
            one.name,
            one.path,
            None if one.capacity_key else count,
            one.required,
            one.owned,
            one.capacity_key,
        )
        for one in permanent_sockets(configuration)
    )


def _pci(permitted: PermittedHostDevices, config: AgentConfig) -> tuple[PciRule, ...]:
    selected = [
        PciRule(one.resource_name, address=pci_address(one.pci_address) or "")
        for one in config.additions.select
        if one.pci_address
    ]
    by_vendor = [
        PciRule(one.resource_name, one.pci_vendor_selector.lower())
        for one in permitted.pci_host_devices
        if is_ours(one.external_resource_provider, config.role)
    ]
    return _distinct([*selected, *by_vendor])


def _mdevs(permitted: PermittedHostDevices) -> tuple[MdevRule, ...]:
    return _distinct(
        MdevRule(one.resource_name, normalize_type_name(one.mdev_name_selector))
        for one in permitted.mediated_devices
        if not one.external_resource_provider
    )


def _usb(permitted: PermittedHostDevices, config: AgentConfig) -> tuple[UsbRule, ...]:
    selected = [
        UsbRule(one.resource_name, port=one.usb_port, serial=one.usb_serial)
        for one in config.additions.select
        if not one.pci_address
    ]
    by_vendor = [
        UsbRule(one.resource_name, tuple((_four(pair.vendor), _four(pair.product)) for pair in one.selectors))
        for one in permitted.usb
        if is_ours(one.external_resource_provider, config.role)
    ]
    # Both port and serial number say more than one of them.
    return _distinct([*sorted(selected, key=lambda rule: not (rule.port and rule.serial)), *by_vendor])


def _four(digits: str) -> str:
    return digits.lower().rjust(4, "0")


def _mdev_types(configuration: Configuration, labels: Mapping[str, str]) -> MdevTypes:
    if not is_mdev_handling_enabled(configuration):
        return MdevTypes(managed=False)
    return MdevTypes(True, desired_mdev_types(configuration, labels), external_mdev_types(configuration))


def _profiles(additions: Additions) -> tuple[VgpuRule, ...]:
    rules = [
        VgpuRule(_profile(one.profile), one.pci_vendor_selector.lower(), pci_address(one.address) or "")
        for one in additions.vgpu_profiles
    ]
    return tuple(sorted(rules, key=lambda rule: not rule.address))


def _profile(profile: int | str) -> int | str:
    """A number in quotes is a number: no vGPU type has digits alone for a name."""
    return int(profile) if isinstance(profile, str) and profile.isascii() and profile.isdigit() else profile


def _distinct(rules: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(rules))
