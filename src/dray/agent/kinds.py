"""From what is to be served to the drivers that do it. The only place that names all kinds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dray.agent.config import GenericRule, Served, SocketRule, UsbRule
from dray.agent.doors.left_driver import LeftDriver
from dray.drivers.contract import Device, Driver
from dray.drivers.generic import GenericDriver
from dray.drivers.generic.config import GenericConfig, GenericDevice
from dray.drivers.iommufd import IommufdDriver
from dray.drivers.iommufd.config import IommufdConfig
from dray.drivers.mdev import MdevDriver
from dray.drivers.mdev.config import MdevConfig, MdevSelector
from dray.drivers.naming import KUBEVIRT_PREFIX
from dray.drivers.nvidia import NvidiaDriver, nvidia_driver
from dray.drivers.nvidia.config import NvidiaConfig
from dray.drivers.nvidia.names import KIND as NVIDIA
from dray.drivers.parcels import QEMU
from dray.drivers.pci import PciDriver
from dray.drivers.pci.config import PciConfig, PciSelector, PciUnit
from dray.drivers.sim import SimDriver, sim_drivers
from dray.drivers.sim.pre_start import Record
from dray.drivers.socket import SocketDriver
from dray.drivers.socket.config import SocketConfig, SocketService
from dray.drivers.usb import UsbDriver
from dray.drivers.usb.config import UsbConfig, UsbResource, UsbSelector
from dray.runtime.clock import Clock

IOMMUFD = KUBEVIRT_PREFIX + "iommufd"


class Kinds:
    """Makes drivers. Kept over changes of the configuration, because simulated devices have a past, and GPUs are watched."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sim = Record(clock.monotonic())
        self._nvidia: NvidiaDriver | None = None

    def drivers(self, served: Served, *, everything: bool = False) -> Sequence[Driver]:
        """The drivers for what is served, one a kind (of sim up to two). With `everything` they also find what no resource names."""
        drivers: list[Driver] = []
        if served.generic:
            drivers.append(GenericDriver(GenericConfig(tuple(map(_generic, served.generic)))))
        if served.sockets:
            drivers.append(SocketDriver(SocketConfig(tuple(map(_socket, served.sockets)))))
        if served.iommufd:
            drivers.append(IommufdDriver(IommufdConfig(served.iommufd)))
        if served.pci or everything:
            drivers.append(PciDriver(_pci(served, everything)))
        if served.mdevs or everything:
            # Of several selectors for a device the drivers take the last, the configuration the first.
            types = [MdevSelector(rule.resource, rule.type_name) for rule in reversed(served.mdevs)]
            drivers.append(MdevDriver(MdevConfig(tuple(types), everything)))
        if served.usb or everything:
            sets = [UsbResource(rule.resource, _usb(rule)) for rule in served.usb]
            drivers.append(UsbDriver(UsbConfig(tuple(sets), everything)))
        if served.nvidia is not None or everything:
            monitor = None if self._nvidia is None else self._nvidia.monitor
            self._nvidia = nvidia_driver(served.nvidia or NvidiaConfig(), self._clock, monitor=monitor)
            drivers.append(self._nvidia)
        if served.sim.devices:
            drivers += sim_drivers(served.sim, self._clock, self._sim)
        return drivers

    def left(self, kind: str) -> Driver:
        """For a kind that is not served any more while claims have devices of it: those are given back."""
        if kind == NVIDIA:  # the only one with something to undo on the host
            return self._nvidia or nvidia_driver(NvidiaConfig(), self._clock)
        return LeftDriver(kind)


def by_resource(served: Served, drivers: Sequence[Driver]) -> Mapping[str, Driver]:
    """The driver behind each resource that is served."""
    kinds = {driver.kind: driver for driver in drivers}
    found = {
        rule.resource: kinds[kind]
        for kind, rules in (
            ("generic", served.generic),
            ("socket", served.sockets),
            ("pci", served.pci),
            ("mdev", served.mdevs),
            ("usb", served.usb),
        )
        for rule in rules
    }
    if served.iommufd:
        found[IOMMUFD] = kinds["iommufd"]
    for driver in drivers:
        if isinstance(driver, SimDriver):
            found |= dict.fromkeys(driver.resources, driver)
        if isinstance(driver, NvidiaDriver) and served.nvidia is not None:
            found[driver.config.offer(driver.config.resource_name)[0]] = driver
    return found


def by_device(drivers: Iterable[Driver], devices: Iterable[Device]) -> Mapping[str, Driver]:
    """The driver behind resources that no configuration names: of MIG devices, by their profiles."""
    gpus = {driver.kind: driver for driver in drivers if isinstance(driver, NvidiaDriver)}
    return {one.resource: gpus[one.kind] for one in devices if one.resource and one.kind in gpus}


def permanent(served: Served) -> frozenset[str]:
    """The resources that are offered whether or not the machine has such a device; the others when it has had one."""
    always = {rule.resource for rule in served.generic if not rule.is_glob}
    always |= {rule.resource for rule in served.sockets if not rule.capacity_key}
    always |= {entry.resource_name for entry in served.sim.devices}
    return frozenset(always | ({IOMMUFD} if served.iommufd else set()))


def _generic(rule: GenericRule) -> GenericDevice:
    return GenericDevice(rule.name, rule.path, rule.count, rule.pre_open, rule.resource)


def _socket(rule: SocketRule) -> SocketService:
    return SocketService(
        rule.name,
        rule.path,
        shares=rule.count or 0,
        capacity=rule.capacity_key,
        optional=not rule.required,
        owner=QEMU if rule.owned else None,
    )


def _pci(served: Served, everything: bool) -> PciConfig:
    selectors = [PciSelector(rule.resource, rule.selector, rule.address) for rule in reversed(served.pci)]
    return PciConfig(tuple(selectors), everything, PciUnit(served.unit.value))


def _usb(rule: UsbRule) -> tuple[UsbSelector, ...]:
    if rule.selectors:
        return tuple(UsbSelector(vendor, product) for vendor, product in rule.selectors)
    return (UsbSelector(port=rule.port, serial=rule.serial),)
