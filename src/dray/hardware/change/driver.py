"""Which driver has a PCI function: bind and unbind."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import ClassVar

from dray.errors import ConflictError, Error, HardwareError, NotFoundError
from dray.hardware.change.access import Access
from dray.hardware.change.value import Effect, HostChange, check_address, check_entry
from dray.hardware.change.vfio import refuse_in_use, wait_node

_DEVICE = "/sys/bus/pci/devices/{address}"
_OVERRIDE = f"{_DEVICE}/driver_override"
_BIND = "/sys/bus/pci/drivers/{driver}/bind"
_UNBIND = "/sys/bus/pci/drivers/{driver}/unbind"
_NO_OVERRIDE = "(null)"
_REFUSED = (
    "the driver refused the device; look at the kernel log (vfio-pci needs an IOMMU, and no function of the IOMMU group "
    "with another driver)"
)


class BindDriver(HostChange, frozen=True):
    """Give a PCI function to a driver (`vfio-pci`), whatever has it now.

    `override` is what its `driver_override` holds in the end, so that a hot reset or a rescan gives it to the same
    driver: by default the driver's name; "" clears it and the kernel's tables decide, as before anyone touched it.
    """

    files: ClassVar[tuple[str, ...]] = (_OVERRIDE, _UNBIND, _BIND)
    undone_by: ClassVar[str] = "BindDriver or UnbindDriver"
    may_block: ClassVar[bool] = True

    address: str
    driver: str
    override: str | None = None

    def __post_init__(self) -> None:
        check_address(self.address)
        check_entry(self.driver, "driver")
        if self.override:
            check_entry(self.override, "override")

    @property
    def device(self) -> str:
        """The function's address."""
        return self.address

    def describe(self) -> str:
        """One line."""
        return f"bind {self.address} to driver {self.driver}"

    def is_so(self, host: Access) -> bool:
        """The driver has the function, by whatever way it got it."""
        return _driver(host, self.address) == self.driver

    def perform(self, host: Access) -> Effect:
        """Override, unbind, bind, and wait for each. A failure gives the function back to the driver it had."""
        effect = Effect(changed=False) if self.is_so(host) else self._change(host)
        if "vfio" in self.driver:
            wait_node(host, self.address, _DEVICE.format(address=self.address))
        return effect

    def _change(self, host: Access) -> Effect:
        self._require_driver(host)
        before = _state(host, self.address)
        try:
            self._bind(host, before.driver)
        except Error as error:
            raise _restored(host, before, error) from error
        return Effect(changed=True, undo=before.as_change())

    def _bind(self, host: Access, old_driver: str) -> None:
        _set_override(host, self.address, self.driver)
        if old_driver:
            _unbind(host, self.address, old_driver)
        _bind(host, self.address, self.driver)
        if self.override is not None and self.override != self.driver:
            _set_override(host, self.address, self.override)

    def _require_driver(self, host: Access) -> None:
        if not host.reading.exists(f"/sys/bus/pci/drivers/{self.driver}"):
            raise NotFoundError(
                f"{self.address}: driver {self.driver} is not loaded: run `modprobe {self.driver}` on the host",
                kind="driver",
                name=self.driver,
            )


class UnbindDriver(HostChange, frozen=True):
    """Take a PCI function from its driver. `override`, where given, is what `driver_override` holds in the end."""

    files: ClassVar[tuple[str, ...]] = (_OVERRIDE, _UNBIND)
    undone_by: ClassVar[str] = "BindDriver"
    may_block: ClassVar[bool] = True

    address: str
    override: str | None = None

    def __post_init__(self) -> None:
        check_address(self.address)
        if self.override:
            check_entry(self.override, "override")

    @property
    def device(self) -> str:
        """The function's address."""
        return self.address

    def describe(self) -> str:
        """One line."""
        return f"unbind {self.address} from its driver"

    def is_so(self, host: Access) -> bool:
        """No driver has the function."""
        return _driver(host, self.address) == ""

    def perform(self, host: Access) -> Effect:
        """Unbind, and wait for it; ConflictError while a process holds the device."""
        if self.is_so(host):
            return Effect(changed=False)
        before = _state(host, self.address)
        _unbind(host, self.address, before.driver)
        if self.override is not None and self.override != before.override:
            _set_override(host, self.address, self.override)
        return Effect(changed=True, undo=before.as_change())


@dataclass(frozen=True, slots=True)
class _State:
    """Who had the function, and by which override."""

    address: str
    driver: str
    override: str

    def as_change(self) -> HostChange:
        """The change that brings this state back."""
        if self.driver:
            return BindDriver(self.address, self.driver, self.override)
        return UnbindDriver(self.address, self.override)


def _driver(host: Access, address: str) -> str:
    """The driver's name, "" for none. NotFoundError when there is no such function."""
    directory = _DEVICE.format(address=address)
    driver = host.link_name(f"{directory}/driver")
    if driver is None and not host.reading.exists(directory):
        raise NotFoundError(
            f"there is no PCI function {address}: look into /sys/bus/pci/devices", kind="device", name=address
        )
    return driver or ""


def _state(host: Access, address: str) -> _State:
    """Reading `driver_override` waits as long as the kernel is binding or unbinding the function: for `perform` only."""
    override = host.read(_OVERRIDE.format(address=address)) or ""
    return _State(address, _driver(host, address), "" if override == _NO_OVERRIDE else override)


def _set_override(host: Access, address: str, driver: str) -> None:
    path = _OVERRIDE.format(address=address)
    host.write(address, path, driver)
    if not host.wait(lambda: _state(host, address).override == driver, host.limits.effect):
        raise HardwareError(f"{address}: {path} did not take {driver!r}", device=address, path=path)


def _unbind(host: Access, address: str, driver: str) -> None:
    path = _UNBIND.format(driver=driver)
    if "vfio" in driver:
        refuse_in_use(host, address, _DEVICE.format(address=address))
    try:
        host.write(address, path, address)
    except NotFoundError:
        if _driver(host, address) == driver:
            raise
    if not host.wait(lambda: _driver(host, address) != driver, host.limits.effect):
        raise HardwareError(
            f"{address}: {driver} did not let go in {host.limits.effect:g} s: look at the kernel log",
            device=address,
            path=path,
        )


def _bind(host: Access, address: str, driver: str) -> None:
    # Not `drivers_probe`, which keeps the driver's reason to itself: `bind` answers with it.
    path = _BIND.format(driver=driver)
    try:
        host.write(address, path, address, {errno.EINVAL: _REFUSED, errno.ENODEV: _REFUSED})
    except ConflictError:
        if _driver(host, address) != driver:
            raise
    if not host.wait(lambda: _driver(host, address) == driver, host.limits.effect):
        raise HardwareError(
            f"{address}: {driver} did not take it in {host.limits.effect:g} s: {_REFUSED}",
            device=address,
            path=path,
        )


def _restored(host: Access, before: _State, error: Error) -> Error:
    """The function as it was, and the error with the outcome of that in its text."""
    try:
        _restore(host, before)
    except Error as second:
        message = f"{error}; and it could not be given back to {before.driver or 'no driver'}: {second}"
        return HardwareError(message, device=before.address, path=_OVERRIDE.format(address=before.address))
    return error


def _restore(host: Access, before: _State) -> None:
    now = _state(host, before.address)
    if now.driver != before.driver:
        if now.driver:
            _unbind(host, before.address, now.driver)
        if before.driver:
            _set_override(host, before.address, before.driver)
            _bind(host, before.address, before.driver)
    if _state(host, before.address).override != before.override:
        _set_override(host, before.address, before.override)
