"""Mediated devices: create and remove."""

from __future__ import annotations

import errno
from typing import ClassVar

from dray.errors import ConflictError, Error, HardwareError, NotFoundError
from dray.hardware.change.access import Access
from dray.hardware.change.value import Effect, HostChange, check_entry, check_uuid
from dray.hardware.change.vfio import refuse_in_use, wait_node

_DEVICE = "/sys/bus/mdev/devices/{uuid}"
_TYPE = "/sys/class/mdev_bus/{parent}/mdev_supported_types/{type_id}"


class CreateMdev(HostChange, frozen=True):
    """Make a mediated device of a type on a parent (a PCI address, or the name of a virtual device)."""

    files: ClassVar[tuple[str, ...]] = (f"{_TYPE}/create",)
    undone_by: ClassVar[str] = "RemoveMdev"

    parent: str
    type_id: str
    uuid: str

    def __post_init__(self) -> None:
        check_entry(self.parent, "parent")
        check_entry(self.type_id, "type_id")
        check_uuid(self.uuid)

    @property
    def device(self) -> str:
        """The new device's UUID."""
        return self.uuid

    def describe(self) -> str:
        """One line."""
        return f"create mediated device {self.uuid} of type {self.type_id} on {self.parent}"

    def is_so(self, host: Access) -> bool:
        """A device with this UUID, type and parent exists. ConflictError when the UUID is another device's."""
        found = _find(host, self.uuid)
        if found is None:
            return False
        if found != self:
            raise ConflictError(
                f"mediated device {self.uuid} exists already, with type {found.type_id} on {found.parent} instead of "
                f"{self.type_id} on {self.parent}: choose another UUID or remove it first"
            )
        return True

    def perform(self, host: Access) -> Effect:
        """Create, and wait for the device and its VFIO node."""
        changed = not self.is_so(host)
        if changed:
            self._require_instances(host)
            self._create(host)
            if not host.wait(lambda: self.is_so(host), host.limits.effect):
                raise HardwareError(
                    f"{self.uuid}: {self.target} took the UUID, but no device appeared in {host.limits.effect:g} s: "
                    "look at the kernel log for the driver's reason",
                    device=self.uuid,
                    path=self.target,
                )
        wait_node(host, self.uuid, _DEVICE.format(uuid=self.uuid))
        return Effect(changed, RemoveMdev(self.uuid) if changed else None)

    def _create(self, host: Access) -> None:
        advice = {
            errno.ENOENT: f"{self.parent} offers no type {self.type_id}: look into "
            f"/sys/class/mdev_bus/{self.parent}/mdev_supported_types",
            errno.ENOSPC: self._none_left(),
            errno.EUSERS: self._none_left(),
            errno.EINVAL: "the driver refused; a card that makes one type at a time may have made another",
        }
        try:
            host.write(self.uuid, self.target, self.uuid, advice)
        except ConflictError:
            if not self.is_so(host):  # somebody who wanted the same was faster
                raise

    def _require_instances(self, host: Access) -> None:
        path = self.target.removesuffix("create") + "available_instances"
        try:
            left = host.read_number(path)
        except Error:  # the write will tell
            return
        if left == 0:
            raise HardwareError(f"{self.uuid}: {self._none_left()}", device=self.uuid, path=path)

    def _none_left(self) -> str:
        return f"{self.parent} has no instance of {self.type_id} left: remove one, or choose another card or type"


class RemoveMdev(HostChange, frozen=True):
    """Remove a mediated device."""

    files: ClassVar[tuple[str, ...]] = (f"{_DEVICE}/remove",)
    undone_by: ClassVar[str] = "CreateMdev"
    may_block: ClassVar[bool] = True

    uuid: str

    def __post_init__(self) -> None:
        check_uuid(self.uuid)

    @property
    def device(self) -> str:
        """Its UUID."""
        return self.uuid

    def describe(self) -> str:
        """One line."""
        return f"remove mediated device {self.uuid}"

    def is_so(self, host: Access) -> bool:
        """No device with this UUID exists."""
        return host.link(_DEVICE.format(uuid=self.uuid)) is None

    def perform(self, host: Access) -> Effect:
        """Remove, and wait until it is gone; ConflictError while a process holds it."""
        before = _find(host, self.uuid)
        if before is None and self.is_so(host):
            return Effect(changed=False)
        refuse_in_use(host, self.uuid, _DEVICE.format(uuid=self.uuid))
        try:
            host.write(self.uuid, self.target, "1")
        except NotFoundError:
            if not self.is_so(host):
                raise
        if not host.wait(lambda: self.is_so(host), host.limits.effect):
            raise HardwareError(
                f"{self.uuid}: still there {host.limits.effect:g} s after its removal: look at the kernel log",
                device=self.uuid,
                path=self.target,
            )
        return Effect(changed=True, undo=before)


def _find(host: Access, uuid: str) -> CreateMdev | None:
    """The device with this UUID, as the change that would make it; None when there is none, or half of one."""
    target = host.link(_DEVICE.format(uuid=uuid))
    type_id = host.link_name(f"{_DEVICE.format(uuid=uuid)}/mdev_type") if target is not None else None
    if target is None or type_id is None:
        return None
    return CreateMdev(target.split("/")[-2], type_id, uuid)
